"""An event loop whose time stands still while the machine does not let it run.

At sixty simulated seconds a second, a pause of 0.2 s of this process beside a control plane on two cores is twelve
simulated seconds in which no request was sent and no token came: the figures would be the machine's, not the fleet's.
"""

from __future__ import annotations

import asyncio
from typing import Final

BEAT_WALL_SECONDS: Final = 0.01
"""The loop wakes this often, so that a longer gap is a pause and not a lack of work."""
LONGEST_GAP_WALL_SECONDS: Final = 0.02
"""What counts of a gap; the rest is skipped. Twice the beat: timers of an idle machine are a millisecond late."""


class SteadyLoop(asyncio.SelectorEventLoop):
    """Timers of everything in it keep their order and their distances, whatever the machine does."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_wall_seconds = 0.0
        """Time that passed on the wall and was not counted."""
        self._seen = super().time()
        self._beat()

    def time(self) -> float:
        """The wall's monotonic time without the pauses. Called by asyncio in every turn of the loop."""
        raw = super().time()
        excess = raw - self._seen - LONGEST_GAP_WALL_SECONDS
        if excess > 0:
            self.skipped_wall_seconds += excess
        self._seen = raw
        return raw - self.skipped_wall_seconds

    def _beat(self) -> None:
        self.call_later(BEAT_WALL_SECONDS, self._beat)
