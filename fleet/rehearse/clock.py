"""A clock that runs faster than the wall: what takes Google ten minutes takes a rehearsal ten seconds."""

from __future__ import annotations

import time

from fleet.simulators.model_server.clock import WallClock

DEFAULT_SPEED = 60.0
"""Simulated seconds in a second of wall time."""


class Clock(WallClock):
    """Simulated time since the clock was made. Kubernetes' own controllers do not run on it: a second of theirs is a real one."""

    def __init__(self, speed: float = DEFAULT_SPEED) -> None:
        """`speed`: simulated seconds per wall second, above zero. Raises ValueError otherwise."""
        super().__init__(speed)

    def sleep(self, simulated_seconds: float) -> None:
        """Sleep that many simulated seconds."""
        time.sleep(max(0.0, self.wall_seconds(simulated_seconds)))
