"""Kubernetes components."""
