"""Rehearsal: a stack on a real local Kubernetes control plane, with a simulated Google Cloud and failure drills."""
