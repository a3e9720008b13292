"""What a rehearsal says about itself: live while it runs, then as text, JSON and a page."""
