"""SIGTERM and SIGHUP as exceptions, so that cleanup runs."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


class Stopped(SystemExit):
    """A signal asked this process to end."""


@contextlib.contextmanager
def stopped_by_exception() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `Stopped` during the block. Main thread only; existing handlers stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        raise Stopped(128 + number)

    former = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
