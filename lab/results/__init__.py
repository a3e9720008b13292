"""What a rehearsal yields, in simulated time: the clock, the timeline, the results of its drills."""
