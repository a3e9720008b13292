"""The load and the run that a page shows, and times as the plots count them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.bench.measurement import ErrorKind, Measurement, Point, Rates, Run, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What most of the page shows."""

    measurement: Measurement
    point: Point
    """The load with the highest steady rate."""
    runs: tuple[Run, ...]
    """Its repeats."""
    run: Run
    """The repeat whose steady rate is nearest to their mean."""

    @property
    def nodes(self) -> int | None:
        """Servers; None where nothing is known of the stack."""
        asked = self.measurement.asked
        return None if asked is None else asked.shape.replicas

    @property
    def is_steady(self) -> bool:
        """Whether every repeat of the load had a steady window."""
        return all(run.steady is not None for run in self.runs)


def shown(measurement: Measurement) -> Shown:
    """What the page shows of a measurement."""
    best = max(measurement.points, key=lambda point: (has_steady(measurement, point), point.total_tokens_per_s.mean))
    runs = runs_of(measurement, best)
    mean = best.total_tokens_per_s.mean

    def distance(run: Run) -> tuple[bool, float]:
        return run.steady is None, abs((run.steady or run.whole).total_tokens_per_s - mean)

    return Shown(measurement=measurement, point=best, runs=runs, run=min(runs, key=distance))


def summed_total(found: Shown) -> float:
    """Total tokens a second, counted the article's way: sum of the clients' own rates, mean over the repeats."""
    return sum(run.summed.total_tokens_per_s for run in found.runs) / len(found.runs)


def runs_of(measurement: Measurement, point: Point) -> tuple[Run, ...]:
    """The repeats of a load, in their order."""
    return tuple(run for run in measurement.runs if run.point == point.point)


def since_start(run: Run, window: Rates) -> tuple[float, float]:
    """Begin and end of a window of the run, seconds since its first request."""
    return window.began - run.whole.began, window.ended - run.whole.began


def window_name(run: Run) -> str:
    """Window of `Run.looked_at`."""
    if run.steady is not None:
        return "steady window"
    return "common window" if run.common is not None else "whole run"


def middles(line: Timeline) -> tuple[float, ...]:
    """The middle of each of a timeline's seconds: where the second's mean belongs on an axis of time."""
    return tuple(begin + 0.5 for begin in line.at)


def name_of(measurement: Measurement, run: Run) -> str:
    """A run: its load, if there are several, and its repeat."""
    load = f"{run.connections:,} in flight, " if len(measurement.points) > 1 else ""
    return f"{load}repeat {run.repeat + 1}"


def errors_by_kind(runs: Sequence[Run]) -> list[ErrorKind]:
    """Failed requests of all runs together, the most frequent kind first, each with the first example of it."""
    found: dict[str, ErrorKind] = {}
    for one in (error for run in runs for error in run.errors):
        before = found.get(one.kind)
        found[one.kind] = one if before is None else before.model_copy(update={"count": before.count + one.count})
    return sorted(found.values(), key=lambda one: -one.count)


def has_steady(measurement: Measurement, point: Point) -> bool:
    """Whether every repeat of a load had a steady window."""
    return all(run.steady is not None for run in runs_of(measurement, point))
