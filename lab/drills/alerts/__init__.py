"""Alert rules, evaluated offline by Prometheus' engine over a simulated fleet's series."""
