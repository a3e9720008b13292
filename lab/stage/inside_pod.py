"""What a pod's Python program sees that runs here: simulated time and the cluster's names. Python imports it first, as `sitecustomize`.

Pauses, waits and time-outs are divided by the speed; a connection's time-out stays at two seconds of wall time or more, so that a busy
machine does not cause one. Time of day is simulated, too.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from typing import Any

LEAST_PAUSE_WALL_SECONDS = 0.01
"""Of a pause, so that a loop with short ones does not fill the machine."""
LEAST_TIMEOUT_WALL_SECONDS = 2.0
SPEED, MONOTONIC, EPOCH = (
    float(os.environ.get(name, "1")) for name in ("REHEARSAL_SPEED", "REHEARSAL_MONOTONIC", "REHEARSAL_EPOCH")
)
"""Simulated seconds per wall second; a moment of this machine's monotonic clock, and what time it was then."""
NAMES = os.environ.get("REHEARSAL_NAMES", "")
"""HOST:PORT that knows the cluster's names."""

_monotonic, _sleep, _getaddrinfo = time.monotonic, time.sleep, socket.getaddrinfo
_wait, _join, _settimeout = threading.Condition.wait, threading.Thread.join, socket.socket.settimeout


def _short(seconds: float | None) -> float | None:
    """A simulated pause in wall time."""
    return seconds if not seconds else max(seconds / SPEED, min(seconds, LEAST_PAUSE_WALL_SECONDS))


def _faster() -> float:
    return _monotonic() * SPEED


def _resolved(host: Any, port: Any, *arguments: Any, **options: Any) -> list[Any]:
    if not (isinstance(host, str) and host.endswith(".svc.cluster.local")):
        return _getaddrinfo(host, port, *arguments, **options)
    connection = http.client.HTTPConnection(NAMES)
    try:
        connection.request("GET", f"/{host}:{port}")
        found = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}: name or service not known")
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", tuple(one)) for one in found]


def _set_timeout(self: socket.socket, seconds: float | None) -> None:
    _settimeout(self, seconds if not seconds else max(LEAST_TIMEOUT_WALL_SECONDS, seconds / SPEED))


def install() -> None:
    """Replace the clock and the names of this process."""
    changes: dict[Any, dict[str, Any]] = {
        time: {
            "monotonic": _faster,
            "perf_counter": _faster,
            "time": lambda: EPOCH + (_monotonic() - MONOTONIC) * SPEED,
            "sleep": lambda seconds: _sleep(_short(seconds) or 0.0),
        },
        threading: {"_time": _faster},
        threading.Condition: {"wait": lambda self, timeout=None: _wait(self, _short(timeout))},
        threading.Thread: {"join": lambda self, timeout=None: _join(self, _short(timeout))},
        socket.socket: {"settimeout": _set_timeout},
        socket: {"getaddrinfo": _resolved},
    }
    for where, names in changes.items():
        for name, value in names.items():
            setattr(where, name, value)


if __name__ == "sitecustomize":
    install()
