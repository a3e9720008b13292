"""The performance model: fit, estimates and errors."""
