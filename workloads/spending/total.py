"""What the spending guard is told, and the sum that it keeps as text in a ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

STATE: Final = "spending"
"""Name of the ConfigMap; its key `state` has the sum."""
RESERVATION: Final = "reservation"
"""A ComputeClass's priority that is paid whether its machines run or not."""
REASONS: Final = ("", "limit", "until")
# Upper bound of one gap: a clock that is wrong by a year must not add a year's cost.
MOST_GAP_SECONDS: Final = 86_400.0
_MOST: Final = 1e12


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the guard is told: the limit and the prices."""

    namespace: str
    """The servers' namespace."""
    home: str
    """The guard's own."""
    limit_usd: float | None
    every: str | None
    """`month`: a sum for each calendar month in UTC; None: one sum."""
    until: str | None
    since: str | None
    then: str
    usd_per_hour_fixed: float
    usd_per_machine_hour: float
    """Of a machine whose priority is not known: the dearest."""
    usd_per_priority_hour: Mapping[str, float]
    """Of a machine by its ComputeClass's priority; empty where all cost the same."""
    reserved_machines: int
    """Machines of a ComputeClass's reservation, 0 if their number is not stated."""
    usd_per_reserved_hour: float
    """Of one of them while it does not run."""
    unknown: tuple[str, ...]
    """Names of items without a price."""
    interval_seconds: float
    idle_seconds: float
    grace_seconds: float

    def name_of_sum(self, date: float) -> str | None:
        """Name of the sum at that time, in seconds since 1970: `since`, with the month where there is a sum for each."""
        month = "" if self.every is None else f"{datetime.fromtimestamp(date, UTC):%Y-%m}"
        return " ".join(filter(None, (self.since, month))) or None

    def usd_of(self, priority: str) -> float:
        """USD an hour of a machine of that priority."""
        return self.usd_per_priority_hour.get(priority, self.usd_per_machine_hour)


@dataclass(kw_only=True)
class Sum:
    """What was spent since a moment, and all that a next process must know."""

    since: str | None = None
    """Its name; another name is another sum."""
    began: str = ""
    usd: float = 0.0
    usd_per_hour: float = 0.0
    at: float = 0.0
    """The API server's clock at the last count, seconds since 1970."""
    nodes: dict[str, float] = field(default_factory=dict)
    """Machines that cost: 0 while one has a pod, then the moment on that clock until which it is paid idle."""
    warned: float = 0.0
    """Largest share of the limit that was told."""
    reason: str = ""
    """Why the fleet is paused; empty while it is not."""
    owed: float = 0.0
    """USD still to come if everything stops now."""
    unpriced: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> Sum:
        """A stored sum. Raises ValueError for a text that no guard writes."""
        try:
            found = cls(**json.loads(text))
            amounts = (found.usd, found.usd_per_hour, found.at, found.warned, found.owed, *found.nodes.values())
            texts: tuple[Any, ...] = (found.began, found.since or "", *found.unpriced, *found.nodes)
            # Of NaN nothing is true: it would never reach a limit.
            if (
                found.at
                and found.reason in REASONS
                and all(0 <= one < _MOST for one in amounts)
                and all(map(_is_text, texts))
            ):
                return found
        except (ValueError, TypeError, AttributeError, RecursionError):
            pass
        raise ValueError("no guard writes this sum")

    def text(self) -> str:
        """As `read` takes it."""
        return json.dumps(asdict(self))

    def count(self, here: set[str], date: float, terms: Terms, priorities: Mapping[str, str]) -> None:
        """Adds the cost since the last count: machines seen at either end of it in full, plus their idle minutes.

        `priorities`: the priority of each machine that is known. A reservation is counted whole, and beyond it what runs there.
        """
        elapsed = min(max(0.0, date - self.at), MOST_GAP_SECONDS)
        usd_seconds, idle_seconds = terms.usd_per_hour_fixed * elapsed, terms.reserved_machines * elapsed
        known, self.nodes = self.nodes, {}
        for node in sorted(here | known.keys()):
            # One that had a pod at the last count, and a new one, which may have come right after it, ran until now.
            ends = known.get(node, 0.0)
            paid_to = date + terms.idle_seconds if node in here or not ends else ends
            seconds, priority = min(elapsed, max(0.0, paid_to - date + elapsed)), priorities.get(node, "")
            usd_seconds += terms.usd_of(priority) * seconds
            idle_seconds -= seconds if priority == RESERVATION else 0.0
            if node in here or paid_to > date:
                self.nodes[node] = 0.0 if node in here else paid_to
        self.usd += (usd_seconds + terms.usd_per_reserved_hour * max(0.0, idle_seconds)) / 3600
        running = [priorities.get(node, "") for node in self.nodes]
        idle = max(0, terms.reserved_machines - running.count(RESERVATION))
        self.usd_per_hour = (
            terms.usd_per_hour_fixed + sum(map(terms.usd_of, running)) + terms.usd_per_reserved_hour * idle
        )
        self.at, self.unpriced = date, list(terms.unknown)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= 1000
