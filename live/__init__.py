"""A running stack as a laptop reaches it: its outputs, its cluster through kubectl, its bucket, its metrics."""
