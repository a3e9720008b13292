"""An event loop whose time stops while a busy machine does not run it.

At speed 60, a pause of 0.2 s of this process is twelve simulated seconds without requests and tokens, which would distort all
figures. Many short pauses do the same.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Final

BEAT_WALL_SECONDS: Final = 0.003
"""The loop wakes this often, so that a longer gap is a pause."""
TIMER_WALL_SECONDS: Final = 0.001
"""How late an idle machine wakes a loop that waits: epoll counts whole milliseconds."""
LONGEST_GAP_WALL_SECONDS: Final = 0.006
"""Counted part of a gap. Twice the beat: at speed 240 one gap is at most 1.4 simulated seconds of an answer's 23."""


class SteadyLoop(asyncio.SelectorEventLoop):
    """Keeps the order and distances of its timers on a busy machine: it counts what it waits for and its own processor time."""

    def __init__(self) -> None:
        self._waits = _Waits()
        super().__init__(self._waits)
        self.skipped_wall_seconds = 0.0
        """Wall time that was not counted."""
        self._seen, self._worked = super().time(), time.thread_time()
        self._beat()

    def time(self) -> float:
        """Monotonic wall time without pauses. Called by asyncio in every iteration."""
        raw, worked = super().time(), time.thread_time()
        gap, own = raw - self._seen, max(0.0, worked - self._worked) + self._waits.taken()
        self.skipped_wall_seconds += gap - min(gap, own, LONGEST_GAP_WALL_SECONDS)
        self._seen, self._worked = raw, worked
        return raw - self.skipped_wall_seconds

    def _beat(self) -> None:
        self.call_later(BEAT_WALL_SECONDS, self._beat)


class _Waits(selectors.DefaultSelector):
    """Knows how long it waited, without the time by which it was woken late."""

    def __init__(self) -> None:
        super().__init__()
        self._waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As selectors.BaseSelector."""
        began = time.monotonic()
        ready = super().select(timeout)
        if timeout is None or timeout > 0:
            waited = time.monotonic() - began
            self._waited += waited if timeout is None else min(waited, timeout + TIMER_WALL_SECONDS)
        return ready

    def taken(self) -> float:
        """Wall seconds waited since the last call."""
        waited, self._waited = self._waited, 0.0
        return waited
