"""Calls that outlast an API server that restarts: Google's part of a rehearsal does not give up because the cluster is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from fleet.rehearse.api import ApiUnreachableError

T = TypeVar("T")
RETRY_SECONDS: Final = 0.2
"""Between two attempts, wall time."""


class StoppedError(Exception):
    """The rehearsal ended while a call was still waiting for an answer."""


def until_answered(call: Callable[[], T], stop: threading.Event) -> T:
    """The call's answer, asked again while nobody answers. Raises StoppedError once `stop` is set, and what the call raises."""
    while True:
        try:
            return call()
        except ApiUnreachableError as error:
            if stop.wait(RETRY_SECONDS):
                raise StoppedError from error
