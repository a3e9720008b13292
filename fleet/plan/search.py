"""The one search of the planner."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


def lowest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The lowest number from `low` to `high` that fits, given that those above it fit too; None if none does."""
    found = low + bisect_left(range(low, high + 1), True, key=fits)
    return found if found <= high else None
