"""A rehearsal's results for people and machines: text, JSON, an HTML timeline."""
