"""Scheduler of a simulated controller's calls, now or at a simulated time, on a few threads."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from lab.cloud.persistence import StoppedError, until_answered
from lab.control_plane.api import ApiRefusedError
from lab.results.clock import Clock

LOG = logging.getLogger(__name__)
WORKERS: Final = 16
"""Calls in flight. Measured: 1000 status patches on two cores take no less with 32."""
SHORTEST_WALL_SECONDS: Final = 0.02
"""Minimum wall time of a delay, so that retries do not become a busy loop on a fast clock."""

BUSY: Final = frozenset({429, 500, 502, 503, 504})
"""Status codes of an API server that starts, stops or waits for etcd; retried."""
BUSY_WALL_SECONDS: Final = 0.2


class Agenda:
    """Calls in order of their time. Unanswered calls are repeated, so they must be idempotent."""

    def __init__(self, clock: Clock, name: str, *, workers: int = WORKERS) -> None:
        self._clock = clock
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=name)
        self._entries: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}-agenda", daemon=True)
        self._thread.start()

    def soon(self, call: Callable[..., None], *arguments: Any) -> None:
        """Call as soon as a thread is free."""
        if self._stop.is_set():
            return
        try:
            self._pool.submit(self._make, call, arguments)
        except RuntimeError:  # Closed meanwhile.
            return

    def after(self, simulated_seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Call after that much simulated time."""
        wall = max(self._clock.wall_seconds(simulated_seconds), SHORTEST_WALL_SECONDS)
        self._at(time.monotonic() + wall, call, arguments)

    def close(self) -> None:
        """Drop pending calls and wait for those in progress."""
        self._stop.set()
        with self._changed:
            self._changed.notify()
        self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _at(self, due: float, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        with self._changed:
            heapq.heappush(self._entries, (due, next(self._numbers), call, arguments))
            self._changed.notify()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                now = time.monotonic()
                if not self._entries:
                    self._changed.wait()
                    continue
                if self._entries[0][0] > now:
                    self._changed.wait(self._entries[0][0] - now)
                    continue
                _, _, call, arguments = heapq.heappop(self._entries)
            self.soon(call, *arguments)

    def _make(self, call: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            until_answered(lambda: call(*arguments), self._stop)
        except StoppedError:
            return
        except ApiRefusedError as refusal:
            if refusal.status in BUSY:
                self._at(time.monotonic() + BUSY_WALL_SECONDS, call, arguments)
                return
            # 404: the object was deleted meanwhile.
            level = logging.DEBUG if refusal.status == 404 else logging.WARNING
            LOG.log(level, "%s: %s", call.__qualname__, refusal.message)
        except Exception:
            LOG.exception("%s", call.__qualname__)


class Backoff:
    """Exponential backoff by key, as in Kubernetes' storage sidecars: from one second to five minutes."""

    FIRST_SECONDS: Final = 1.0
    LONGEST_SECONDS: Final = 300.0
    # Source: external-provisioner and external-attacher, --retry-interval-start and --retry-interval-max.

    def __init__(self) -> None:
        self._next: dict[Any, float] = {}
        self._lock = threading.Lock()

    def pause_seconds(self, key: Any) -> float:
        """The next pause, in simulated seconds."""
        with self._lock:
            pause = self._next.get(key, self.FIRST_SECONDS)
            self._next[key] = min(pause * 2, self.LONGEST_SECONDS)
        return pause

    def forget(self, key: Any) -> None:
        """Reset the key after success or deletion."""
        with self._lock:
            self._next.pop(key, None)
