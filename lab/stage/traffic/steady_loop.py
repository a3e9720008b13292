"""An event loop whose time stops while a busy machine does not run it.

At speed 60, a pause of 0.2 s of this process is twelve simulated seconds without requests and tokens, which would distort all
figures.
"""

from __future__ import annotations

import asyncio
from typing import Final

BEAT_WALL_SECONDS: Final = 0.003
"""The loop wakes this often, so that a longer gap is a pause."""
LONGEST_GAP_WALL_SECONDS: Final = 0.006
"""Counted part of a gap. Twice the beat, as timers of an idle machine are a millisecond late. At speed 240 one gap is at most 1.4
simulated seconds of an answer's 23."""


class SteadyLoop(asyncio.SelectorEventLoop):
    """Keeps the order and distances of its timers on a busy machine."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_wall_seconds = 0.0
        """Wall time that was not counted."""
        self._seen = super().time()
        self._beat()

    def time(self) -> float:
        """Monotonic wall time without pauses. Called by asyncio in every iteration."""
        raw = super().time()
        excess = raw - self._seen - LONGEST_GAP_WALL_SECONDS
        if excess > 0:
            self.skipped_wall_seconds += excess
        self._seen = raw
        return raw - self.skipped_wall_seconds

    def _beat(self) -> None:
        self.call_later(BEAT_WALL_SECONDS, self._beat)
