"""The weights as one read-only volume."""
