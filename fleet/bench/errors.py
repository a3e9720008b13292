"""Error of the benchmark."""

from __future__ import annotations


class BenchmarkError(Exception):
    """One message: what is wrong, with its value or file, what is allowed, what to do."""
