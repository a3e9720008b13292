"""Durations counted in a fixed piece of work, so that no test fails because a machine is slow or busy."""

from __future__ import annotations

import time

WORK = "sum(i * i for i in range(200_000))"
"""About 6 ms of an idle core of 2024."""


def unit_seconds() -> float:
    """Processor seconds that `WORK` takes here and now; the best of five."""
    taken = []
    for _ in range(5):
        began = time.process_time()
        eval(WORK)
        taken.append(time.process_time() - began)
    return min(taken)
