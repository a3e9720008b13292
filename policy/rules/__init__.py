"""The rules by subject. Each module has its rules in `RULES`."""
