"""Waiting for what shall be, not for a time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Returns once it holds; what nobody answers does not hold yet. Raises AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if holds():
                return
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)
