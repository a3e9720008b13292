"""What the providers did in one operation of the engine, on the simulated clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from facts.finding import Finding
from lab.results.clock import Clock

_DONE: Final[Mapping[str, str]] = {"create": "created", "update": "updated", "delete": "deleted"}


class Observed:
    """Times, failures and findings by URN. Thread-safe."""

    def __init__(self, clock: Clock, on_progress: Callable[[str], None] = lambda _: None) -> None:
        self._clock, self._tell = clock, on_progress
        self._lock = threading.Lock()
        self._calls = 0
        self._ended = threading.Condition(self._lock)
        self.begin()

    def begin(self) -> None:
        """Forget the last operation."""
        with self._lock:
            self._began: float | None = None
            self.started_seconds: dict[str, float] = {}
            self.finished_seconds: dict[str, float] = {}
            self.failed: dict[str, str] = {}
            """Why a resource failed, with the cluster's own reason."""
            self.findings: list[Finding] = []

    @property
    def has_begun(self) -> bool:
        """Whether there was a call for a Kubernetes object."""
        return self._began is not None

    @property
    def began_seconds(self) -> float:
        """The first call for a Kubernetes object, or now: the seconds before it are the engine's own, not the cloud's."""
        return self._clock.now_seconds() if self._began is None else self._began

    def starts(self, urn: str, name: str, operation: str, *, is_object: bool) -> None:
        """A call for this resource begins. `name`: `Kind/name`; `is_object`: in the cluster, not at Google."""
        with self._lock:
            self._calls += 1
            now = self._clock.now_seconds()
            self.started_seconds[urn] = now
            if is_object and self._began is None:
                self._began = now
        self._tell(f"{name}: {operation}")

    def waits(self, name: str, text: str) -> None:
        """A resource waits for this."""
        self._tell(f"{name}: {text}")

    def ends(self, urn: str, name: str, operation: str, failure: str = "") -> None:
        """The call ends, well or with a failure."""
        with self._lock:
            if failure:
                self.failed[urn] = failure
            else:
                self.finished_seconds[urn] = self._clock.now_seconds()
            done = len(self.finished_seconds)
            self._calls -= 1
            self._ended.notify_all()
        self._tell(f"{name}: {failure or _DONE[operation]} ({done})")

    def until_idle(self) -> None:
        """Wait until no call is under way: one of a killed engine would end in the next operation, and tell of itself there."""
        with self._ended:
            self._ended.wait_for(lambda: self._calls == 0)

    def found(self, *findings: Finding) -> None:
        """Add findings."""
        with self._lock:
            self.findings.extend(findings)
