"""Simulated clock, faster than wall time."""

from __future__ import annotations

import time
from typing import Final

DEFAULT_SPEED: Final = 60.0
"""Simulated seconds per wall second of a rehearsal."""


class Clock:
    """Simulated time since construction. Kubernetes' controllers run in wall time instead."""

    def __init__(self, speed: float = DEFAULT_SPEED) -> None:
        """`speed`: simulated seconds per wall second, above zero. Raises ValueError otherwise."""
        if speed <= 0:
            raise ValueError(f"speed must be above zero, got {speed}")
        self.speed = speed
        self._began = time.monotonic()

    def now_seconds(self) -> float:
        """Simulated seconds since construction."""
        return (time.monotonic() - self._began) * self.speed

    def wall_seconds(self, simulated_seconds: float) -> float:
        """Wall time of a simulated period."""
        return simulated_seconds / self.speed

    def sleep(self, simulated_seconds: float) -> None:
        """Sleep that many simulated seconds."""
        time.sleep(max(0.0, self.wall_seconds(simulated_seconds)))
