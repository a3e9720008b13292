"""The Inference Gateway."""
