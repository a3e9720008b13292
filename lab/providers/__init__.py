"""Pulumi's providers of a rehearsal: Kubernetes on its own API server, and a simulated Google Cloud."""
