"""Waiting for what shall be, not for a time."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Returns once it holds; what nobody answers does not hold yet. Raises AssertionError after so many seconds."""
    assert within(seconds, holds), "not in time"


def within(seconds: float, holds: Callable[[], object]) -> bool:
    """Whether it comes to hold in so many seconds."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if holds():
                return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs. One that nobody has waited for yet is gone, too."""
    try:
        os.kill(pid, 0)
        return sys.platform != "linux" or "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
