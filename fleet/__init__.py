"""The toolbox: what looks at the program. Nothing of the program imports it."""
