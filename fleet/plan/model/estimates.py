"""A number that was worked out, with how far it may be off and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

Basis = Literal["fitted", "predicted", "extrapolated", "calibrated", "estimated", "upper bound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value between `low` and `high`. Raises ValueError where they are out of order."""

    value: float
    low: float
    high: float
    basis: Basis
    """`fitted`: the model was fitted to this very reading. `predicted`: not fitted to it, but within what was measured.
    `extrapolated`: beyond what anyone measured, in the ways `reasons` names. These three are of the article's model on its GPU.
    `calibrated`: fitted to another measured GPU. `estimated`: a roofline of models like it, off by `factor` either way.
    `upper bound`: a GPU that nobody measured, its arithmetic and bandwidth in full; more cannot be.
    """
    reasons: tuple[str, ...] = ()
    """In what the question leaves what was measured; empty where it does not."""
    factor: float | None = None
    """What `low` and `high` are away from the value, where one factor says it."""

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"low, value and high must ascend, got {self.low}, {self.value}, {self.high}")

    def __str__(self) -> str:
        return f"{_format(self.value)} ({_format(self.low)} to {_format(self.high)}, {self.label})"

    @property
    def label(self) -> str:
        """The basis as a report shows it beside a figure: "estimated x/÷ 2". The first three are of the calibrated model."""
        return f"{self.basis} x/÷ {self.factor:g}" if self.factor is not None else self.basis

    def holds(self, value: float) -> bool:
        """Whether `value` lies between low and high."""
        return self.low <= value <= self.high

    def map(self, function: Callable[[float], float]) -> Estimate:
        """The estimate of a monotonic function of this value."""
        ends = sorted((function(self.low), function(self.value), function(self.high)))
        return replace(self, low=ends[0], value=function(self.value), high=ends[2])


def _format(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
