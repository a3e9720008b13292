"""Fisher's exact test: whether two counts differ by more than chance."""

from __future__ import annotations

from math import exp, lgamma


def more_by_chance(first: int, of_first: int, second: int, of_second: int) -> float:
    """One-sided p-value: probability that the second of two equal sides has at least as many."""
    together = first + second
    whole = _ways(of_first + of_second, together)
    most = min(of_second, together)
    ways = (
        exp(_ways(of_second, count) + _ways(of_first, together - count) - whole)
        for count in range(max(second, together - of_first), most + 1)
    )
    return min(1.0, sum(ways))


def _ways(of: int, chosen: int) -> float:
    """Logarithm of the binomial coefficient."""
    return lgamma(of + 1) - lgamma(chosen + 1) - lgamma(of - chosen + 1)
