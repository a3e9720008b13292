"""What keeps a benchmark from an answer."""

from __future__ import annotations


class BenchmarkError(Exception):
    """One message for a person: what was wrong, with which value or file, what is allowed, and what to do."""
