"""Reports of a plan: terminal text, JSON and an HTML page."""
