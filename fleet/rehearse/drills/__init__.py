"""The drills: what a bad day does to the fleet, one module per subject."""
