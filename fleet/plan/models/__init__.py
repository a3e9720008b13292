"""The model catalog, as text and JSON."""
