"""A clock that runs faster than the wall: what takes Google ten minutes takes a rehearsal ten seconds."""

from __future__ import annotations

import threading
import time

DEFAULT_SPEED = 60.0
"""Simulated seconds in a second of wall time."""


class Clock:
    """Simulated time since the clock was made. Kubernetes' own controllers do not run on it: a second of theirs is a real one."""

    def __init__(self, speed: float = DEFAULT_SPEED) -> None:
        """`speed`: simulated seconds per wall second, above zero. Raises ValueError otherwise."""
        if speed <= 0:
            raise ValueError(f"a clock's speed is above zero, not {speed}")
        self.speed = speed
        self._began = time.monotonic()

    def now_seconds(self) -> float:
        """Simulated seconds since the start."""
        return (time.monotonic() - self._began) * self.speed

    def wall_seconds(self, simulated_seconds: float) -> float:
        """How long that many simulated seconds take on the wall."""
        return simulated_seconds / self.speed

    def sleep(self, simulated_seconds: float, until: threading.Event | None = None) -> bool:
        """Sleep that many simulated seconds, or until the event is set. True when the event ended it."""
        wall = max(0.0, self.wall_seconds(simulated_seconds))
        if until is not None:
            return until.wait(wall)
        time.sleep(wall)
        return False
