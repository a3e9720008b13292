"""The argument parser alone."""
