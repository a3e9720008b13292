"""What is known, with its source and date, and exact arithmetic on it. Imports nothing of the project."""
