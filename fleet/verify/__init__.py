"""`fleet verify`: compares a live stack with its settings."""
