"""A judged measurement as one page for a person, and its plots as images."""
