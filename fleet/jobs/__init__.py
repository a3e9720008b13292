"""Jobs that a command starts in a stack's cluster: create, watch, show."""
