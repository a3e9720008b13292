"""Simulated servers on loopback: model servers and a bucket."""
