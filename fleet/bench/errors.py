"""Error of the benchmark."""

from __future__ import annotations

from facts.user_error import UserError


class BenchmarkError(UserError):
    """One message: what is wrong, with its value or file, what is allowed, what to do."""
