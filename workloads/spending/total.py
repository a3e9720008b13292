"""What the spending guard is told, and the sum that it keeps: text in a ConfigMap, read with bounds on each value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

WHY_RESUMED: Final = {
    "limit": "the limit is higher or gone, or a new month began",
    "until": "the moment is later, or gone",
    "unknown": "the sum is trusted again, or unknown does not pause any more",
    "": "a pause was found that this sum knows nothing of",
}
_STORED: Final = {"began": "from", "wake_until": "wakeUntil", "usd_per_hour": "usdPerHour"}
RESERVATION: Final = "reservation"
"""A ladder's rung that is paid whether its machines run or not."""
_MONTH: Final = "%Y-%m"
_MONTH_AT_END: Final = re.compile("[0-9]{4}-[0-9]{2}$")
_SHORT: Final = 24
"""A date and its quotes."""
_MOST: Final = {"warned": 1.0} | dict.fromkeys(("counted", "at", "wakeUntil"), 1e11)


class DamagedSumError(ValueError):
    """A stored sum with a value that no guard writes."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        is_plain = value is None or isinstance(value, str | int | float)
        self.name, self.allowed = name, allowed
        text = json.dumps(value) if is_plain else f"a {type(value).__name__}"
        # Not cut: whoever prints it hides secrets by their form, and the rest of a cut one has none.
        self.shown = text if len(text) <= _SHORT else f"{len(text)} characters"
        super().__init__(f"{name} is {self.shown}; allowed: {allowed}")


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
    on_unknown: str
    warn_at: tuple[float, ...]
    usd_per_hour_fixed: float
    usd_per_machine_hour: float
    """Of a machine whose rung is not known: the dearest."""
    usd_per_rung_hour: Mapping[str, float]
    """Of a machine by its ladder's rung; empty where all cost the same."""
    reserved_machines: int
    """Machines of a ladder's reservation, 0 if their number is not stated."""
    usd_per_reserved_hour: float
    """Of one of them while it does not run."""
    unknown: tuple[str, ...]
    """Names of items without a price."""
    interval_seconds: float
    idle_seconds: float
    grace_seconds: float

    def name_of_sum(self, date: float) -> str | None:
        """Name of the sum at that time, in seconds since 1970: `since`, with the month where there is a sum for each."""
        if self.every is None:
            return self.since
        return " ".join(filter(None, (self.since, f"{datetime.fromtimestamp(date, UTC):{_MONTH}}")))

    def usd_of(self, rung: str) -> float:
        """USD an hour of a machine of that rung."""
        return self.usd_per_rung_hour.get(rung, self.usd_per_machine_hour)

    def is_earlier(self, name: str | None, date: float) -> bool:
        """Whether a sum of that name is one of these terms for a month before that of the time."""
        current = self.name_of_sum(date)
        if self.every is None or name is None or current is None:
            return False
        return _MONTH_AT_END.sub("", name) == _MONTH_AT_END.sub("", current) and name < current


class Machine(NamedTuple):
    """A machine that costs: when it last had a pod, in seconds of the sum, and whether it had one at the last count."""

    seen: float
    here: bool


@dataclass(kw_only=True)
class Sum:
    """What was spent since a moment, and all that a next process must know."""

    since: str | None
    began: str = ""
    usd: float = 0.0
    usd_per_hour: float = 0.0
    counted: float = 0.0
    """Seconds in the sum."""
    at: float = 0.0
    """The API server's clock at the last count, seconds since 1970."""
    nodes: dict[str, Machine] = field(default_factory=dict)
    warned: float = 0.0
    """Largest share of the limit that was told."""
    reason: str = ""
    """Why the fleet is paused; empty while it is not."""
    owed: float = 0.0
    """USD still to come if everything stops now."""
    unknown: str = ""
    """Why the sum cannot be trusted."""
    unpriced: list[str] = field(default_factory=list)
    wake_until: float = 0.0

    @classmethod
    def read(cls, text: str) -> Sum:
        """A stored sum. Raises DamagedSumError."""
        try:
            stored = json.loads(text)
        except (ValueError, RecursionError):
            stored = None
        if not isinstance(stored, dict):
            raise DamagedSumError("state", text, "a JSON object, as the guard writes it")
        values: dict[str, Any] = {}
        for of_field in fields(cls):
            name = _STORED.get(of_field.name, of_field.name)
            if name not in stored:
                raise DamagedSumError(name, None, "a value, as the guard writes it")
            values[of_field.name] = _sound(name, stored[name])
        return cls(**values)

    def text(self) -> str:
        """As `read` takes it."""
        return json.dumps({_STORED.get(name, name): value for name, value in asdict(self).items()})

    def begin_month(self, name: str | None, date: float) -> None:
        """Starts the sum of a new month at its first second: what runs goes on, and so does a pause until the next decision."""
        self.since, self.usd, self.warned, self.owed = name, 0.0, 0.0, 0.0
        self.began = f"{datetime.fromtimestamp(date, UTC):{_MONTH}-01T00:00:00Z}"

    def count(self, here: set[str], elapsed: float, terms: Terms, rungs: Mapping[str, str]) -> None:
        """Adds the cost of the last `elapsed` seconds: machines seen at either end of it in full, plus their idle minutes.

        `rungs`: the rung of each machine that is known. A reservation is counted whole, and beyond it what runs there.
        """
        before, after = self.counted, self.counted + elapsed
        usd_seconds, idle_seconds = terms.usd_per_hour_fixed * elapsed, terms.reserved_machines * elapsed
        known, self.nodes = self.nodes, {}
        for node in sorted(here | known.keys()):
            # A new machine may have come right after the last count.
            last, was_here = known.get(node, Machine(before, True))
            is_here = node in here
            seen = after if was_here or is_here else last
            paid_to = seen + terms.idle_seconds
            seconds, rung = max(0.0, min(after, paid_to) - before), rungs.get(node, "")
            usd_seconds += terms.usd_of(rung) * seconds
            idle_seconds -= seconds if rung == RESERVATION else 0.0
            if is_here or paid_to > after:
                self.nodes[node] = Machine(seen, is_here)
        self.usd += (usd_seconds + terms.usd_per_reserved_hour * max(0.0, idle_seconds)) / 3600
        running = [rungs.get(node, "") for node in self.nodes]
        idle = max(0, terms.reserved_machines - running.count(RESERVATION))
        self.usd_per_hour = (
            terms.usd_per_hour_fixed + sum(map(terms.usd_of, running)) + terms.usd_per_reserved_hour * idle
        )
        self.counted = after


def _sound(name: str, value: Any) -> Any:
    """A stored value, if a guard can have written it. Raises DamagedSumError."""
    match name:
        case "since":
            allowed, sound = "a text or null", value is None or _is_text(value)
        case "reason":
            allowed, sound = ", ".join(map(repr, WHY_RESUMED)), _is_text(value) and value in WHY_RESUMED
        case "from" | "unknown":
            allowed, sound = "a text", _is_text(value)
        case "unpriced":
            allowed = "a list of texts"
            sound = isinstance(value, list) and all(map(_is_text, value))
        case "nodes":
            allowed, sound = "a machine's seconds and whether it is there, by its name", isinstance(value, dict)
            if sound:
                pairs = [tuple(pair) if isinstance(pair, list) else () for pair in value.values()]
                sound = all(
                    len(pair) == 2 and _is_number(pair[0], 1e11) and isinstance(pair[1], bool) for pair in pairs
                )
                value = {node: Machine(*pair) for node, pair in zip(value, pairs, strict=True)} if sound else value
        case _:
            most = _MOST.get(name, 1e12)
            allowed, sound = f"a number from 0 to {most:g}", _is_number(value, most)
    if not sound:
        raise DamagedSumError(name, value, allowed)
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= 1000


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
