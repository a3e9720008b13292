"""Applies a recorded stack as Pulumi would: by its own graph, server-side, waiting for readiness kind by kind."""
