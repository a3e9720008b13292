"""Google Cloud components."""
