"""The performance model fitted to the published rows, with its error on each."""
