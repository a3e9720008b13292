"""How much throughput a gateway costs, and what of it: the measurements, and their arithmetic."""
