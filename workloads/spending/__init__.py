"""The guard that stops a fleet at a limit."""
