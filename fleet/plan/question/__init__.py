"""Questions to the planner."""
