"""`fleet verify`: whether a live stack serves what its settings declare."""
