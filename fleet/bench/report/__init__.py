"""A judged measurement as one page for a person."""
