"""Failure drills, one module per subject."""
