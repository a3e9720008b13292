"""Progress of this pod, written to the results bucket every few seconds."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from .results_bucket import Bucket, BucketError

PERIOD_SECONDS = 10.0
LOG = logging.getLogger("progress")


class Progress:
    """One object, overwritten by a separate thread; a failed write stops nothing."""

    def __init__(
        self, bucket: Bucket, object_name: str, *, period_seconds: float = PERIOD_SECONDS, **known: Any
    ) -> None:
        self._bucket, self._name, self._period = bucket.hasty(), object_name, period_seconds
        self._known: dict[str, Any] = {"schema": 1, **known}
        self._watch: Callable[[], dict[str, Any]] = dict
        self._begun = time.time()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._write_on, daemon=True)

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def tell(self, watch: Callable[[], dict[str, Any]] | None = None, **news: Any) -> None:
        """Update the values. `watch` returns values that change by themselves, read before each write."""
        with self._lock:
            self._known.update(news)
            self._watch = watch or self._watch

    def snapshot(self) -> dict[str, Any]:
        """Current values."""
        with self._lock:
            known, watch = dict(self._known), self._watch
        now = time.time()
        return {**known, **watch(), "at": round(now, 3), "elapsed_seconds": round(now - self._begun, 1)}

    def end(self, **news: Any) -> None:
        """Write a last time and stop."""
        self.tell(dict, **news)
        self._stop.set()
        self._send()

    def _write_on(self) -> None:
        while not self._stop.is_set():
            self._send()
            self._stop.wait(self._period)

    def _send(self) -> None:
        # One at a time: an older write must not follow the last one.
        with self._sending:
            try:
                self._bucket.put(self._name, json.dumps(self.snapshot()).encode(), again=True)
            except (BucketError, OSError) as error:
                LOG.warning("progress is not written: %s", error)
