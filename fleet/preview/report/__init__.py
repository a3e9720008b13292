"""What a preview says, as text, JSON, a pull-request comment and a page."""
