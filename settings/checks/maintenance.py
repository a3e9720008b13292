"""GKE's limits of a maintenance window, which it would refuse after minutes, with a network made already."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from facts.finding import Finding

if TYPE_CHECKING:
    from settings.sections.cluster import Maintenance

# Source: GKE docs, "Maintenance windows and exclusions" and "Configure maintenance windows and exclusions", as of 2026. Until 2025
# the span was 32 days instead of 92.
SPAN_DAYS: Final = 92
MIN_HOURS: Final = 48
MIN_WINDOW_HOURS: Final = 4
_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def maintenance_problems(path: str, policy: Maintenance) -> Iterator[Finding]:
    """Every problem of a maintenance policy, including times that do not exist."""
    moments = {"startTime": policy.start_time, "endTime": policy.end_time}
    unreal = {name: text for name, text in moments.items() if moment(text) is None}
    for name, text in unreal.items():
        yield Finding(
            id="not-a-moment",
            subject=f"{path}.{name}",
            found=text,
            allowed="an existing date and time in UTC",
            why="GKE rejects a time that does not exist",
            write='"2026-01-03T02:00:00Z"',
        )
    start, end = moment(policy.start_time), moment(policy.end_time)
    if start is None or end is None:
        return
    hours, days = (end - start) / timedelta(hours=1), _weekdays(policy.recurrence, start)
    gaps = [(later - day - 1) % 7 + 1 for day, later in zip(days, (*days[1:], days[0]), strict=True)]
    # The fewest windows that any 92 days hold: a day less than 13 weeks and two days, from the end of one.
    room = hours * len(days) * (SPAN_DAYS // 7)
    if hours < MIN_WINDOW_HOURS or hours > 24 * min(gaps) or room < MIN_HOURS:
        yield Finding(
            id="maintenance-window",
            subject=path,
            found=f"{hours:g} h, {len(days)} a week",
            allowed=f"windows of {MIN_WINDOW_HOURS} hours or more that do not overlap, with {MIN_HOURS} hours or more in any "
            f"{SPAN_DAYS} days",
            why="GKE rejects a policy that leaves less time for upgrades",
            write='{startTime: "2026-01-03T02:00:00Z", endTime: "2026-01-03T10:00:00Z", recurrence: "FREQ=WEEKLY;BYDAY=SA,SU"}',
        )


def moment(text: str) -> datetime | None:
    """The time of an RFC 3339 text in UTC; None if it does not exist or is outside 2000 to 2199."""
    try:
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return found if 2000 <= found.year < 2200 else None


def _weekdays(recurrence: str, start: datetime) -> tuple[int, ...]:
    """Weekdays on which a window begins, Monday is 0. A weekly rule without days repeats the first window's day."""
    if recurrence == "FREQ=DAILY":
        return tuple(range(7))
    named = re.findall(r"(?<=[=,])[A-Z]{2}\b", recurrence.partition("BYDAY")[2])
    return tuple(sorted({_DAYS.index(day) for day in named})) or (start.weekday(),)
