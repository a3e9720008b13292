"""Batches: their Job, what it needs on the cluster, and the program of its pods."""
