"""The slope of a rate over a window, with its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Final

from fleet.bench.measurement import Run
from fleet.bench.student_t import two_sided

_LEAST_SECONDS: Final = 6
"""Fewest seconds for a line."""


@dataclass(frozen=True, slots=True)
class Slope:
    """A line through a window, as shares of the window's mean."""

    share: float
    """End of the line over its begin, minus 1."""
    noise: float
    """Half of that number's 95 % interval."""


def output_slope(run: Run) -> Slope | None:
    """The slope of output tok/s through the whole seconds of a run's steady window; None with fewer than six of them."""
    if run.steady is None:
        return None
    began, ended = run.steady.began - run.whole.began, run.steady.ended - run.whole.began
    seconds = zip(run.timeline.at, run.timeline.output_tokens_per_s, strict=False)
    return slope_of([(at + 0.5, rate) for at, rate in seconds if began <= at and at + 1 <= ended], ended - began)


def slope_of(points: Sequence[tuple[float, float]], seconds: float) -> Slope | None:
    """A least-squares line's rise over that many seconds, with the interval that its residuals give."""
    count = len(points)
    if count < _LEAST_SECONDS:
        return None
    middle = sum(at for at, _ in points) / count
    mean = sum(rate for _, rate in points) / count
    spread = sum((at - middle) * (at - middle) for at, _ in points)
    if not mean > 0 or not isfinite(mean) or not spread > 0:
        return None
    slope = sum((at - middle) * (rate / mean - 1) for at, rate in points) / spread
    residual = sum((rate / mean - 1 - slope * (at - middle)) ** 2 for at, rate in points)
    noise = two_sided(count - 2) * sqrt(residual / (count - 2) / spread) * seconds
    return Slope(slope * seconds, noise)
