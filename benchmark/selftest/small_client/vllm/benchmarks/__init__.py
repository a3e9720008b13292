"""The benchmark client alone."""
