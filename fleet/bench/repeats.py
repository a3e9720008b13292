"""Mean of a few repeats with its interval, and the interval of a difference of two means."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, sqrt
from typing import Final

from fleet.bench.measurement import Estimate
from fleet.bench.student_t import two_sided

CONFIDENCE: Final = 0.95
"""Of every interval. Two-sided: an unchanged mean is called worse once in forty times."""


def estimate(values: Sequence[float]) -> Estimate:
    """A mean with its 95 % confidence interval by Student's t; without values, 0 with no repeats."""
    if not values:
        return Estimate(mean=0.0, low=None, high=None, repeats=0, variation=None)
    mean = sum(values) / len(values)
    if len(values) < 2:
        return Estimate(mean=mean, low=None, high=None, repeats=1, variation=None)
    deviation = sqrt(_mean_and_variance(values)[1])
    half = two_sided(len(values) - 1, CONFIDENCE) * deviation / sqrt(len(values))
    return Estimate(
        mean=mean,
        low=mean - half,
        high=mean + half,
        repeats=len(values),
        variation=deviation / mean if mean else None,
    )


def welch_half_width(before: Sequence[float], after: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Half the width of the interval for the difference of two means whose spreads need not be equal.

    Welch's t with the Welch-Satterthwaite degrees of freedom; 0 where neither side varies, infinite where it is undefined. Each
    side needs two values.
    """
    (_, first), (_, second) = _mean_and_variance(before), _mean_and_variance(after)
    parts = first / len(before), second / len(after)
    error = sum(parts)
    if not isfinite(error):
        return inf
    if not error > 0:
        return 0.0
    # Shares, since the squares of tiny numbers are 0.
    shares = parts[0] / error, parts[1] / error
    degrees = 1 / (shares[0] * shares[0] / (len(before) - 1) + shares[1] * shares[1] / (len(after) - 1))
    return two_sided(degrees, confidence) * sqrt(error)


def _mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, sum((value - mean) * (value - mean) for value in values) / (len(values) - 1)
