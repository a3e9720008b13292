"""What the platform and the lessons hold against a stack's settings before anything is created."""
