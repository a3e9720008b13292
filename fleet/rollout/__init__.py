"""Canary rollouts: plan, start, judge, promote, abort."""
