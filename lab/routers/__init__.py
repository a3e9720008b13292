"""Measures real routers on loopback: processor time, added latency, balance, prefix hits, open streams, and what a death costs."""
