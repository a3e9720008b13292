"""KEDA: chart, namespace and network policies. One per cluster."""
