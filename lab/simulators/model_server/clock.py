"""The time that a server keeps: the wall's, or a faster one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What a server asks of a clock. A rehearsal's clock is one."""

    def now_seconds(self) -> float:
        """Seconds of this clock since it was made."""

    def wall_seconds(self, simulated_seconds: float) -> float:
        """How long that many of its seconds take on the wall."""


class WallClock:
    """A clock of its own that runs `speed` times as fast as the wall."""

    def __init__(self, speed: float = 1.0) -> None:
        """Raises ValueError for a speed of zero or less."""
        if speed <= 0:
            raise ValueError(f"a clock's speed is above zero, not {speed}")
        self.speed = speed
        self._began = time.monotonic()

    def now_seconds(self) -> float:
        """Its seconds since it was made."""
        return (time.monotonic() - self._began) * self.speed

    def wall_seconds(self, simulated_seconds: float) -> float:
        """How long that many of its seconds take on the wall."""
        return simulated_seconds / self.speed
