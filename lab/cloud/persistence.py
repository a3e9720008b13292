"""Retries of API calls while the API server restarts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from lab.control_plane.api import ApiUnreachableError

T = TypeVar("T")
RETRY_SECONDS: Final = 0.2
"""Wall time between two attempts."""


class StoppedError(Exception):
    """The rehearsal ended during a retry."""


def until_answered(call: Callable[[], T], stop: threading.Event) -> T:
    """The call's answer, retried while the API server is unreachable. Raises StoppedError once `stop` is set."""
    while True:
        try:
            return call()
        except ApiUnreachableError as error:
            if stop.wait(RETRY_SECONDS):
                raise StoppedError from error
