"""Proof of a batch's clients on this machine: simulated servers and a simulated bucket, with faults."""
