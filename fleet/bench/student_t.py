"""Student's t distribution: the quantiles that a confidence interval of few repeats needs.

Pure arithmetic, so that nothing heavier than `math` is loaded for one number. The distribution function is the regularised
incomplete beta function; its continued fraction is evaluated by Lentz's method. Source: Press et al., Numerical Recipes,
third edition, sections 6.4 and 6.14.
"""

from __future__ import annotations

from functools import cache
from math import exp, inf, isinf, isnan, lgamma, log, log1p

_TINY = 1e-300
_PRECISION = 1e-15


def distribution(t: float, degrees: float) -> float:
    """Probability of a value of at most `t`, with any positive number of degrees of freedom (Welch's are no whole number).

    Raises ValueError when there are no degrees of freedom.
    """
    if isnan(degrees) or degrees <= 0:
        raise ValueError(f"degrees of freedom must be above 0, got {degrees}")
    if isinf(t):
        return 1.0 if t > 0 else 0.0
    square = t * t
    if isinf(square):
        return 1.0 if t > 0 else 0.0
    # Both tails together; the share is given from both ends, so that neither loses its digits near 1.
    tails = _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + square), square / (degrees + square))
    return 1 - tails / 2 if t > 0 else tails / 2


@cache
def quantile(probability: float, degrees: float) -> float:
    """The value that is not exceeded with this probability: 0.975 and 2 degrees of freedom give 4.303.

    Raises ValueError for a probability outside 0 to 1 (ends excluded), or without degrees of freedom.
    """
    if not 0 < probability < 1:
        raise ValueError(f"a probability must lie between 0 and 1, got {probability}")
    if probability < 0.5:
        return -quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while distribution(high, degrees) < probability:
        low, high = high, high * 2
        if isinf(high):
            return inf
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if distribution(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def two_sided(degrees: float, confidence: float = 0.95) -> float:
    """The factor of a standard error that gives half the width of a confidence interval.

    Raises ValueError for a confidence outside 0 to 1, or without degrees of freedom.
    """
    return quantile((1 + confidence) / 2, degrees)


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function at x; `rest` is 1 - x."""
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    log_x = log(x) if x < 0.5 else log1p(-rest)
    log_rest = log(rest) if rest < 0.5 else log1p(-x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log_x + b * log_rest)
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    value, c = 1.0, 1.0
    d = 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
