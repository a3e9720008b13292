"""A standing question to the servers, and how its answers are judged."""
