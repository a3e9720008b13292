"""What a person asks the planner."""
