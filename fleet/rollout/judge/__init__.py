"""Compares a canary with one of the servers and writes a verdict for `fleet rollout promote`."""
