"""GKE's limits of a maintenance policy: windows, exclusions, and the time they leave for upgrades."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.prices import today

if TYPE_CHECKING:
    from settings.sections.cluster import Maintenance, MaintenanceExclusion

# Source: GKE docs, "Maintenance windows and exclusions" and "Configure maintenance windows and exclusions", as of 2026. Until 2025
# the limits were 32 and 30 days instead of 92 and 90.
SPAN_DAYS: Final = 92
MIN_HOURS: Final = 48
MIN_WINDOW_HOURS: Final = 4
MAX_FREEZE_DAYS: Final = 90
MAX_FREEZES: Final = 3

_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WINDOW: Final = (
    '{startTime: "2026-01-03T02:00:00Z", endTime: "2026-01-03T10:00:00Z", recurrence: "FREQ=WEEKLY;BYDAY=SA,SU"}'
)
_Stretch = tuple[datetime, datetime]


def maintenance_problems(path: str, policy: Maintenance) -> Iterator[Finding]:
    """Every problem of a maintenance policy, including times that do not exist."""
    unreal = [
        *_unreal(path, policy),
        *(one for i, each in enumerate(policy.exclusions) for one in _unreal(f"{path}.exclusions[{i}]", each)),
    ]
    yield from unreal or _impossible(path, policy)


def moment(text: str) -> datetime | None:
    """The time of an RFC 3339 text in UTC; None if it does not exist or is outside 2000 to 2199."""
    try:
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return found if 2000 <= found.year < 2200 else None


def _unreal(path: str, given: Maintenance | MaintenanceExclusion) -> Iterator[Finding]:
    for name, text in (("startTime", given.start_time), ("endTime", given.end_time)):
        if text is not None and moment(text) is None:
            yield Finding(
                id="not-a-moment",
                subject=f"{path}.{name}",
                found=text,
                allowed="an existing date and time in UTC",
                why="GKE rejects a time that does not exist",
                write='"2026-01-03T02:00:00Z"',
            )


def _impossible(path: str, policy: Maintenance) -> Iterator[Finding]:
    start, end = _stretch(policy.start_time, policy.end_time)
    hours, days = _hours(start, end), _weekdays(policy.recurrence, start)
    gaps = [(later - day - 1) % 7 + 1 for day, later in zip(days, (*days[1:], days[0]), strict=True)]
    room = _hours_in_any_span(start, end, days, ())
    if hours < MIN_WINDOW_HOURS or hours > 24 * min(gaps) or room < MIN_HOURS:
        yield Finding(
            id="maintenance-window",
            subject=path,
            found=f"{hours:g} h, {len(days)} a week",
            allowed=f"windows of {MIN_WINDOW_HOURS} hours or more that do not overlap, with {MIN_HOURS} hours or more in any "
            f"{SPAN_DAYS} days",
            why="GKE rejects a policy that leaves less time for upgrades",
            write=_WINDOW,
        )
        return
    yield from _exclusion_problems(f"{path}.exclusions", policy.exclusions)
    freezes = tuple(
        _stretch(exclusion.start_time, exclusion.end_time)
        for exclusion in policy.exclusions
        if exclusion.scope == "NO_UPGRADES" and exclusion.end_time
    )
    if freezes and (left := _hours_in_any_span(start, end, days, freezes)) < MIN_HOURS:
        yield Finding(
            id="maintenance-frozen",
            subject=f"{path}.exclusions",
            found=f"{left:g} h of windows in {SPAN_DAYS} days",
            allowed=f"{MIN_HOURS} hours or more of windows outside NO_UPGRADES in any {SPAN_DAYS} days, {MIN_WINDOW_HOURS} hours or more "
            "at a time",
            why="GKE rejects a policy that prevents upgrades",
            write="shorter exclusions, more windows, or scope: NO_MINOR_OR_NODE_UPGRADES, which allows patches of the control plane",
        )


def _exclusion_problems(path: str, exclusions: tuple[MaintenanceExclusion, ...]) -> Iterator[Finding]:
    names: set[str] = set()
    freezes = 0
    for i, exclusion in enumerate(exclusions):
        at, frozen = f"{path}[{i}]", exclusion.scope == "NO_UPGRADES"
        freezes += frozen
        if exclusion.name in names:
            yield Finding(
                id="exclusion-name",
                subject=f"{at}.name",
                found=exclusion.name,
                allowed="a unique name",
                why="GKE identifies exclusions by name, so one would replace the other",
                write=f"{exclusion.name}-{i + 1}",
            )
        names.add(exclusion.name)
        if (
            exclusion.end_time is not None
            and (ended := moment(exclusion.end_time)) is not None
            and ended.date() < today()
        ):
            yield Finding(
                id="exclusion-over",
                subject=f"{at}.endTime",
                found=exclusion.end_time,
                allowed="a time in the future",
                why="it excludes nothing any more, and counts against GKE's limits until it is removed",
                write=f"remove {exclusion.name}",
                severity="warning",
            )
        if frozen and exclusion.end_time is None:
            yield Finding(
                id="exclusion-without-end",
                subject=f"{at}.endTime",
                found=None,
                allowed=f"a time within {MAX_FREEZE_DAYS} days of startTime",
                why="only scopes that allow patches may last until the version's end of support",
                write="endTime, or scope: NO_MINOR_OR_NODE_UPGRADES",
            )
        elif exclusion.end_time is not None:
            start, end = _stretch(exclusion.start_time, exclusion.end_time)
            if end <= start or (frozen and end - start > timedelta(days=MAX_FREEZE_DAYS)):
                most = f"within {MAX_FREEZE_DAYS} days" if frozen else "before the version's end of support"
                yield Finding(
                    id="exclusion-length",
                    subject=f"{at}.endTime",
                    found=exclusion.end_time,
                    allowed=f"after startTime, {most}",
                    why=f"GKE rejects an end before the start, and NO_UPGRADES for more than {MAX_FREEZE_DAYS} days",
                    write=f'"{start + timedelta(days=30):%Y-%m-%dT%H:%M:%SZ}"',
                )
        if frozen and freezes == MAX_FREEZES + 1:
            yield Finding(
                id="too-many-freezes",
                subject=f"{at}.scope",
                found=exclusion.scope,
                allowed=f"NO_UPGRADES in up to {MAX_FREEZES} exclusions",
                why=f"GKE allows {MAX_FREEZES}; expired exclusions count until they are removed",
                write="scope: NO_MINOR_OR_NODE_UPGRADES, or remove an expired exclusion",
            )


def _stretch(start: str, end: str | None) -> _Stretch:
    first, last = moment(start), moment(end or start)
    assert first is not None and last is not None  # noqa: PT018 - `_unreal` has checked them
    return first, last


def _hours(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds() / 3600


def _weekdays(recurrence: str, start: datetime) -> tuple[int, ...]:
    """Weekdays on which a window begins, Monday is 0. A weekly rule without days repeats the first window's day."""
    if recurrence == "FREQ=DAILY":
        return tuple(range(7))
    named = re.findall(r"(?<=[=,])[A-Z]{2}\b", recurrence.partition("BYDAY")[2])
    return tuple(sorted({_DAYS.index(day) for day in named})) or (start.weekday(),)


@functools.cache  # a preview checks the same policy several times
def _hours_in_any_span(start: datetime, end: datetime, days: tuple[int, ...], freezes: tuple[_Stretch, ...]) -> float:
    """Minimum hours of windows in any 92 days, without frozen time and without pieces shorter than 4 hours."""
    span, fewest = timedelta(days=SPAN_DAYS), float("inf")
    for first, last in freezes or [(start, start)]:
        pieces = list(_pieces(start, end, days, (first - span, last + span), freezes))
        # The minimum begins at the end of a window.
        for begin in (ended for _, ended in pieces if first - span <= ended <= last):
            clipped = ((max(a, begin), min(b, begin + span)) for a, b in pieces)
            fewest = min(fewest, sum(_hours(a, b) for a, b in clipped if b - a >= timedelta(hours=MIN_WINDOW_HOURS)))
    return 0.0 if fewest == float("inf") else fewest


def _pieces(
    start: datetime, end: datetime, days: tuple[int, ...], within: _Stretch, freezes: tuple[_Stretch, ...]
) -> Iterator[_Stretch]:
    day = within[0].replace(hour=start.hour, minute=start.minute, second=start.second)
    while day < within[1]:
        if day.weekday() in days:
            left = [(day, day + (end - start))]
            for a, b in freezes:
                left = [piece for x, y in left for piece in ((x, min(y, a)), (max(x, b), y)) if piece[1] > piece[0]]
            yield from left
        day += timedelta(days=1)
