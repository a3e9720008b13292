"""Simulated clock, faster than wall time."""

from __future__ import annotations

import time

from lab.simulators.model_server.clock import WallClock

DEFAULT_SPEED = 60.0
"""Simulated seconds per wall second."""


class Clock(WallClock):
    """Simulated time since construction. Kubernetes' controllers run in wall time instead."""

    def __init__(self, speed: float = DEFAULT_SPEED) -> None:
        """`speed`: simulated seconds per wall second, above zero. Raises ValueError otherwise."""
        super().__init__(speed)

    def sleep(self, simulated_seconds: float) -> None:
        """Sleep that many simulated seconds."""
        time.sleep(max(0.0, self.wall_seconds(simulated_seconds)))
