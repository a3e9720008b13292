"""Programs that run in a batch's client pods: standard library only."""
