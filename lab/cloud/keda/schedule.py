"""Cron expressions of five fields, as in robfig/cron v3, which KEDA's cron trigger uses; without names of months and weekdays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

_BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_LONGEST_DAYS: Final = 5 * 366
"""robfig/cron looks five years ahead."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Matching minutes, hours, days of the month, months and weekdays (0 is Sunday)."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """Whether days of the month or weekdays are `*`: then both must match, otherwise one is enough."""

    @classmethod
    def parse(cls, line: str) -> Schedule:
        """Raises ValueError for a line that KEDA refuses."""
        fields = line.split()
        if len(fields) != len(_BOUNDS):
            raise ValueError(f"expected exactly 5 fields, found {len(fields)}: {fields}")
        minutes, hours, days, months, weekdays = (
            _numbers(field, *bounds) for field, bounds in zip(fields, _BOUNDS, strict=True)
        )
        any_day = any(field[0] in "*?" for field in (fields[2], fields[4]))
        return cls(tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays, any_day)

    def next(self, after: datetime) -> datetime:
        """The first match after `after`, in its time zone. Raises ValueError if there is none in five years."""
        for ahead in range(_LONGEST_DAYS):
            day = after + timedelta(days=ahead)
            if day.month not in self.months or not self._is_on(day):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    moment = day.replace(hour=hour, minute=minute, second=0, microsecond=0)
                    if moment > after:
                        return moment
        raise ValueError("the schedule has no match in the next five years")

    def _is_on(self, day: datetime) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month and of_week if self.any_day else of_month or of_week


def _numbers(field: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        if span in ("*", "?"):
            first, last = least, most
        else:
            low, dash, high = span.partition("-")
            first = int(low)
            last = int(high) if dash else most if slash else first
        every = int(step) if slash else 1
        if not least <= first <= last <= most or every < 1:
            raise ValueError(f"{part} is not within {least} to {most}")
        found.update(range(first, last + 1, every))
    return frozenset(found)
