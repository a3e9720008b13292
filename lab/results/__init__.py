"""What a rehearsal yields, in simulated time: the clock, the results of its drills."""
