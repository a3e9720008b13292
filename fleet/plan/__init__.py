"""From a goal to a fleet: the fitted model, the question, the plan and its reports."""
