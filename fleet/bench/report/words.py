"""Estimates and rates of a measurement as text."""

from __future__ import annotations

from fleet.bench.measurement import Estimate
from fleet.report.words import NOTHING, format_number


def interval(estimate: Estimate) -> str:
    """The 95 % interval."""
    if estimate.low is None or estimate.high is None:
        return "one run: no interval" if estimate.repeats == 1 else "no interval"
    return f"95 % interval {format_number(estimate.low)} to {format_number(estimate.high)}, {estimate.repeats} repeats"


def rate(value: float | None) -> str:
    """A rate; a dash where there is none."""
    return NOTHING if value is None else format_number(value)
