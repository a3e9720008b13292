"""Expected maximum of normal random numbers."""

from __future__ import annotations

from itertools import pairwise
from math import log, sqrt

# Source: order statistics of the normal distribution, tabulated in textbooks: expected largest of n, in standard deviations.
_TABLE = (
    (1, 0.0),
    (2, 0.5642),
    (3, 0.8463),
    (4, 1.0294),
    (6, 1.2672),
    (8, 1.4236),
    (12, 1.6292),
    (16, 1.7660),
    (24, 1.9477),
    (32, 2.0697),
    (64, 2.3439),
    (100, 2.5076),
)


def expected_maximum(count: int) -> float:
    """Expected maximum of `count` standard normal numbers, interpolated in the logarithm of the count."""
    if count < 1:
        raise ValueError(f"count must be 1 or more, got {count}")
    for (fewer, low), (more, high) in pairwise(_TABLE):
        if count <= more:
            return low + (high - low) * log(count / fewer) / log(more / fewer)
    # Beyond the table it grows with the square root of the logarithm.
    most, last = _TABLE[-1]
    return last * sqrt(log(count) / log(most))
