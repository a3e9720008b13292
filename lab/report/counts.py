"""Number of nodes or pods in each state over time, for timelines with too many rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from fleet.report.svg import Point
from lab.results.timeline import Moment, Mood

STACKED: Final[tuple[Mood, ...]] = ("good", "waiting", "bad", "plain")
"""From the bottom up."""
MEANINGS: Final[Mapping[Mood, str]] = {
    "good": "Ready or done",
    "waiting": "waiting or starting",
    "bad": "not Ready or failed",
    "plain": "ending",
}
COLUMNS: Final = 240
"""Samples over the width. Assumed: three pixels each on a wide screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """One state's area in the stack."""

    mood: Mood
    meaning: str
    outline: tuple[Point, ...]
    """Corners: minutes since the start, and a share of the highest count."""
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Stacked areas over time."""

    areas: tuple[Area, ...]
    most_ready: int
    least_ready: int
    """After the first moment with `most_ready`."""


def counts_of(moments: Sequence[Moment], since: float, until: float) -> Counts:
    """Counts over the given time, from moments with a duration."""
    columns = _columns(moments, since, until)
    totals = [sum(column.values()) for column in columns]
    highest = max(1, max(totals))
    ready = [column["good"] for column in columns]
    top = ready.index(max(ready))
    below = [0] * len(columns)
    areas = []
    for mood in STACKED:
        above = [low + column[mood] for low, column in zip(below, columns, strict=True)]
        most = max(column[mood] for column in columns)
        if most:
            areas.append(
                Area(
                    mood=mood,
                    meaning=MEANINGS[mood],
                    outline=_outline(below, above, highest, (until - since) / 60),
                    most=most,
                )
            )
        below = above
    return Counts(areas=tuple(areas), most_ready=max(ready), least_ready=min(ready[top:]))


def _columns(moments: Sequence[Moment], since: float, until: float) -> list[dict[Mood, int]]:
    """Counts per column: the ones with the fewest Ready in it, so that no dip is lost."""
    changes: list[tuple[float, Mood, int]] = []
    for moment in moments:
        if moment.until_seconds is not None and moment.until_seconds > moment.at_seconds:
            changes += [(moment.at_seconds, moment.mood, 1), (moment.until_seconds, moment.mood, -1)]
    # Ends sort before starts of the same instant, so that consecutive states are not counted twice.
    changes.sort(key=lambda change: (change[0], change[2]))
    now: dict[Mood, int] = dict.fromkeys(STACKED, 0)
    columns: list[dict[Mood, int]] = []
    index, width = 0, (until - since) / COLUMNS
    for number in range(COLUMNS):
        # The last column includes what ends with the picture.
        end = until if number == COLUMNS - 1 else since + (number + 1) * width
        lowest: dict[Mood, int] | None = None
        while index < len(changes) and changes[index][0] < end:
            at = changes[index][0]
            while index < len(changes) and changes[index][0] == at:
                _, mood, step = changes[index]
                now[mood] += step
                index += 1
            if lowest is None or now["good"] <= lowest["good"]:
                lowest = dict(now)
        columns.append(lowest or dict(now))
    return columns


def _outline(below: Sequence[int], above: Sequence[int], highest: int, span: float) -> tuple[Point, ...]:
    """Along the top from left to right, and back along the bottom."""
    corners = (*_steps(above), *reversed(list(_steps(below))))
    return tuple((column / len(above) * span, count / highest) for column, count in corners)


def _steps(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    column = 0
    for count, group in groupby(counts):
        yield column, count
        column += len(list(group))
        yield column, count
