"""Programs that run in a batch's pods: standard library only."""
