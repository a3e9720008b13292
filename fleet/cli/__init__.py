"""The `fleet` command line: one thin module per verb."""

VERSION = "0.1.0"
"""The project's version, as in pyproject.toml; here so that `fleet --version` reads no package metadata."""
