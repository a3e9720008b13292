"""A simulated week: load over time, a policy of scaling, and what it costs and misses."""
