"""Reports of a preview: text, JSON, pull-request comment, HTML page."""
