"""Compares a recording with another one, or with an exported state."""
