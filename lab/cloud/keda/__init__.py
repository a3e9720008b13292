"""Simulated KEDA operator, with real CRDs and the real HPA controller."""
