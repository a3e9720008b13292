"""Simulate a week of autoscaling: load, scaling policy, cost and missed requests."""
