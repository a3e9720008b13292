"""KEDA: its chart, its namespace and who may talk to it. One per cluster."""
