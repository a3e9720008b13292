"""An estimated value with its interval, and what estimates rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Basis = Literal["published", "calibrated", "roofline"]
"""`published`: fitted to the article's rows, for its models on its GPU. `calibrated`: compared with own trials of the model on that GPU.
`roofline`: two numbers for the model's class, chosen on public rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value between `low` and `high`. Raises ValueError if they are out of order."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"low, value and high must ascend, got {self.low}, {self.value}, {self.high}")

    def times(self, factor: float) -> Estimate:
        """Value and interval, each multiplied by a factor of 0 or more."""
        return Estimate(value=factor * self.value, low=factor * self.low, high=factor * self.high)
