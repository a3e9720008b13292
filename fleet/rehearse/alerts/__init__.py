"""Alert rules evaluated offline by Prometheus' own engine, and a fleet's series as managed Prometheus would hold them."""
