"""Timeline of a drill, in simulated time."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lab.results.clock import Clock

Lane = Literal["apply", "node", "pod", "volume", "gateway", "capacity", "traffic", "operator"]
"""Category of a moment."""
Mood = Literal["plain", "good", "waiting", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An event, or a period with a state."""

    lane: Lane
    subject: str
    """Name of the node, pod, volume or resource."""
    text: str
    """A few words: "created", "Ready", "preempted: 15 s notice"."""
    at_seconds: float
    """Simulated seconds on the rehearsal's clock."""
    until_seconds: float | None = None
    """End of a period; None for an event."""
    mood: Mood = "plain"


class Timeline:
    """Collects moments. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._moments: list[Moment] = []
        self._lock = threading.Lock()

    def note(
        self, lane: Lane, subject: str, text: str, *, mood: Mood = "plain", since_seconds: float | None = None
    ) -> Moment:
        """Add an event; with `since_seconds`, a period from then until now."""
        now = self.clock.now_seconds()
        began, ended = (now, None) if since_seconds is None else (since_seconds, now)
        moment = Moment(lane=lane, subject=subject, text=text, at_seconds=began, until_seconds=ended, mood=mood)
        with self._lock:
            self._moments.append(moment)
        return moment

    def extend(self, moments: Iterable[Moment]) -> None:
        """Add moments timed on the same clock."""
        with self._lock:
            self._moments.extend(moments)

    def moments(self, since_seconds: float = 0.0) -> tuple[Moment, ...]:
        """Moments that began or ended at or after `since_seconds`, by start."""
        with self._lock:
            found = list(self._moments)
        return _ordered(one for one in found if max(one.at_seconds, one.until_seconds or 0.0) >= since_seconds)


def _ordered(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    return tuple(sorted(moments, key=lambda moment: (moment.at_seconds, moment.lane, moment.subject)))
