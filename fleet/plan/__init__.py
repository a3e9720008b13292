"""The planner: performance model, question, plan and reports."""
