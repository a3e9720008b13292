"""The benchmark: its Job, and the programs of its pods."""
