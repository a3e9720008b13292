"""What a rehearsal yields: results of its drills."""
