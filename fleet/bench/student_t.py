"""Student's t distribution: the factor that a confidence interval of few repeats needs.

No table: Welch's degrees of freedom are no whole numbers, and several intervals share their chance of error. With t = tan(angle) times
the root of the degrees the density is a power of a cosine, which Simpson's rule sums up. Checked against NIST's table of critical values.
"""

from __future__ import annotations

from functools import cache
from math import atan, cos, exp, lgamma, pi, sqrt
from typing import Final

_STEPS: Final = 256
_PRECISION: Final = 1e-9


@cache
def two_sided(degrees: float, confidence: float = 0.95) -> float:
    """The factor of a standard error that gives half the width of a confidence interval: 4.303 for 2 degrees of freedom.

    Raises ValueError for a confidence outside 0 to 1, or without degrees of freedom.
    """
    if not degrees > 0:
        raise ValueError(f"degrees of freedom must be above 0, got {degrees}")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence must lie between 0 and 1, got {confidence}")
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence:
        low, high = high, 2 * high
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return high


def _within(t: float, degrees: float) -> float:
    """Probability of a value between -t and t."""
    factor = 2 * exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2)) / sqrt(pi)
    end = atan(t / sqrt(degrees))
    inner = sum((4 if step % 2 else 2) * cos(end * step / _STEPS) ** (degrees - 1) for step in range(1, _STEPS))
    return float(factor * end / _STEPS / 3 * (1 + inner + cos(end) ** (degrees - 1)))
