"""An estimated value with its interval and basis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

Basis = Literal["fitted", "predicted", "extrapolated", "calibrated", "estimated", "upper bound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value between `low` and `high`. Raises ValueError if they are out of order."""

    value: float
    low: float
    high: float
    basis: Basis
    """`fitted`: the model was fitted to this reading. `predicted`: not fitted to it, but within the measured range.
    `extrapolated`: outside it, for `reasons`. These three are for the article's model on its GPU.
    `calibrated`: fitted to another measured GPU. `estimated`: a roofline for the model's class, within `factor`.
    `upper bound`: full arithmetic and bandwidth of a GPU that was never measured.
    """
    reasons: tuple[str, ...] = ()
    """Differences from the measured range."""
    factor: float | None = None
    """Uncertainty of each end, as a ratio."""
    as_engine: float | None = None
    """The value as one engine, where `value` is as the article's fleet."""

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"low, value and high must ascend, got {self.low}, {self.value}, {self.high}")

    @property
    def label(self) -> str:
        """The basis as reports show it: "estimated x/÷ 2"."""
        return f"{self.basis} x/÷ {self.factor:g}" if self.factor is not None else self.basis

    @property
    def planned_end(self) -> float:
        """The end of a latency that nodes are sized for: the high one; for an upper bound its best, so that nodes are a lower bound."""
        return self.value if self.basis == "upper bound" else self.high

    def map(self, function: Callable[[float], float]) -> Estimate:
        """Apply a monotonic function to value and interval."""
        ends = sorted((function(self.low), function(self.value), function(self.high)))
        return replace(
            self,
            low=ends[0],
            value=function(self.value),
            high=ends[2],
            as_engine=None if self.as_engine is None else function(self.as_engine),
        )
