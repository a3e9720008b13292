"""Load of a service over days, from public traces in facts/data/day.csv, which has their license notice.

`bursty` changes at any hour; `daily` repeats every day. Both are ten-minute means, so shorter bursts are not in the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args

from facts.ledger import DATA_FOLDER

Shape = Literal["bursty", "daily"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
FILE: Final = DATA_FOLDER / "day.csv"
SLOT_SECONDS: Final = 600
DAYS: Final = 14
SECONDS_PER_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Open-loop arrivals."""

    requests_per_s: tuple[float, ...]
    """Mean rate of each step."""
    step_seconds: int
    first_second: int = 0
    """Start in seconds after hour 0 of day 0."""

    @property
    def hours(self) -> float:
        """Duration in hours."""
        return len(self.requests_per_s) * self.step_seconds / 3600


@cache
def profile(shape: Shape) -> tuple[float, ...]:
    """Load of each ten minutes of two weeks, relative to the maximum."""
    header, *rows = (line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    column = header.split(",").index(shape)
    return tuple(int(row.split(",")[column]) / 1000 for row in rows)


def load_of_day(
    shape: Shape, peak_requests_per_s: float, *, first_day: int = 7, days: int = 7, step_seconds: int = 60
) -> Load:
    """Days of the trace, scaled so that the maximum of the two weeks is `peak_requests_per_s`. Raises ValueError.

    The load is interpolated linearly between the middles of two slots.
    """
    if not (first_day >= 0 and 0 < days <= DAYS - first_day):
        raise ValueError(f"the trace has days 0 to {DAYS - 1}, got {days} from day {first_day}")
    shares, first = profile(shape), first_day * SECONDS_PER_DAY
    found = []
    for second in range(first, first + days * SECONDS_PER_DAY, step_seconds):
        at = min(max((second + step_seconds / 2) / SLOT_SECONDS - 0.5, 0.0), len(shares) - 1.0)
        left = int(at)
        right = min(left + 1, len(shares) - 1)
        found.append(peak_requests_per_s * (shares[left] + (at - left) * (shares[right] - shares[left])))
    return Load(requests_per_s=tuple(found), step_seconds=step_seconds, first_second=first)
