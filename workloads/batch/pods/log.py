"""The log of a batch's clients: a line of JSON for each event. No document, no id of one and no answer is ever in it."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from .times import Times

_SEVERITIES = {
    "started": "INFO",
    "progress": "INFO",
    "waiting": "INFO",
    "done": "NOTICE",
    "stopped": "NOTICE",
    "stalled": "WARNING",
    "late": "WARNING",
    "failing": "WARNING",
    "limit": "WARNING",
    "blind": "WARNING",
}
_LOCK = threading.Lock()


class Log:
    """Events of one client."""

    def __init__(self, batch: str, index: int, times: Times) -> None:
        self._batch, self._index, self._times = batch, index, times
        self._since: dict[str, float] = {}
        self._next: dict[str, float] = {}

    def tell(self, step: str, message: str, **numbers: Any) -> None:
        """Write an event."""
        line = {"event": "batch", "step": step, "severity": _SEVERITIES[step], "message": message}
        text = json.dumps({**line, "batch": self._batch, "client": self._index, **numbers})
        with _LOCK:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def tell_while(self, is_so: bool, step: str, message: str, *, after: float = 0.0, **numbers: Any) -> None:
        """Write an event about what lasts: once it has lasted `after` seconds, then again every five minutes. Call it every turn."""
        key = f"{step} {message.partition(':')[0]}"
        if not is_so:
            self._since.pop(key, None)
            self._next.pop(key, None)
            return
        now = time.monotonic()
        self._since.setdefault(key, now)
        if now >= self._next.setdefault(key, now + after):
            self._next[key] = now + self._times.repeat
            self.tell(step, message, **numbers)
