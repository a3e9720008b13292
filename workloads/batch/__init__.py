"""Batches: the programs of their pods."""
