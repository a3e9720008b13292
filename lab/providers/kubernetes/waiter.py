"""Waits for single objects, on one watch per kind."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab.control_plane.api import ApiUnreachableError, ClusterApi, Kind, Manifest
from lab.control_plane.mirror import Mirror
from lab.providers.kubernetes.verdict import Failed, Ready, Verdict, Waiting
from lab.results.clock import Clock

LOOK_AGAIN_SECONDS: Final = 0.25
"""Wall time after which a verdict is repeated for an unchanged object: objects it depends on may have changed."""
SLACK_SECONDS: Final = 15.0
"""Minimum wall time of a wait, for Kubernetes' controllers, which run in wall time: ten simulated minutes are ten seconds at
speed 60. Assumed: twice the slowest controller seen on two cores."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It did not become ready in time."""

    missing: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The apply was cancelled."""


@dataclass(frozen=True, slots=True)
class Late:
    """It became ready after Pulumi's timeout, within the slack for the controllers."""

    seconds: float


Outcome = Ready | Failed | TimedOut | Cancelled | Late


class Waiter:
    """The watches of one apply. A context manager: exit ends them."""

    def __init__(
        self, api: ClusterApi, clock: Clock, stop: threading.Event, slack_seconds: float = SLACK_SECONDS
    ) -> None:
        self._api, self._clock, self._stop, self._slack = api, clock, stop, slack_seconds
        self._mirrors: dict[Kind, Mirror] = {}
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def until_ready(
        self,
        applied: Manifest,
        judge: Callable[[Manifest], Verdict],
        timeout_seconds: float,
        on_missing: Callable[[str], None] = lambda _: None,
    ) -> Outcome:
        """Wait until `judge` returns Ready or Failed for `applied` or a later version, or until the simulated timeout."""
        metadata = applied["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        mirror = self._mirror(Kind.of(applied))
        began = self._clock.now_seconds()
        deadline = time.monotonic() + max(self._clock.wall_seconds(timeout_seconds), self._slack)
        missing = ""
        while True:
            one = mirror.get(name, namespace)
            verdict: Verdict = Waiting("the watch to see it")
            if one is not None and _at_least(one, applied):
                try:
                    verdict = judge(one)
                except ApiUnreachableError:  # The provider's watch survives this too.
                    verdict = Waiting("the API server to answer")
            if isinstance(verdict, Ready):
                took = self._clock.now_seconds() - began
                # With more slack the clock is so fast that lateness means nothing.
                meaningful = self._slack <= SLACK_SECONDS
                return Late(took) if took > timeout_seconds and meaningful else verdict
            if isinstance(verdict, Failed):
                return verdict
            if verdict.missing != missing:
                missing = verdict.missing
                on_missing(missing)
            left = deadline - time.monotonic()
            if left <= 0:
                return TimedOut(missing)
            if self._stop.is_set():
                return Cancelled()
            _until_changed(mirror, name, namespace, min(left, LOOK_AGAIN_SECONDS), one)

    def until_gone(self, kind: Kind, name: str, namespace: str | None, timeout_seconds: float) -> Manifest | None:
        """Wait until the object is gone; returns None, or the last version of an object that still exists."""
        deadline = time.monotonic() + max(self._clock.wall_seconds(timeout_seconds), self._slack)
        mirror = self._mirror(kind)
        while True:
            mirror.wait_for(lambda now: now.get(name, namespace or "") is None, LOOK_AGAIN_SECONDS)
            left = mirror.get(name, namespace or "")
            if left is None and self._is_gone(kind, name, namespace):
                return None
            if time.monotonic() >= deadline or self._stop.is_set():
                return left or {"metadata": {"name": name}}
            if left is None:  # The watch does not have it yet, or the server did not answer.
                self._stop.wait(LOOK_AGAIN_SECONDS)

    def _is_gone(self, kind: Kind, name: str, namespace: str | None) -> bool:
        """Check with the server: a restarted watch may not list the object yet."""
        try:
            return self._api.get(kind, name, namespace) is None
        except ApiUnreachableError:
            return False

    def _mirror(self, kind: Kind) -> Mirror:
        with self._lock:
            if kind not in self._mirrors:
                mirror = self._mirrors[kind] = Mirror(self._api, kind)
                self._stack.callback(mirror.stop)
                # In a thread: entering blocks until the API server answers the first list.
                threading.Thread(target=mirror.__enter__, name=f"watch-{kind}", daemon=True).start()
            return self._mirrors[kind]


def _at_least(manifest: Manifest, applied: Manifest) -> bool:
    """Whether the watch has caught up with the applied version. Resource versions are increasing numbers (KEP-5504)."""
    seen, written = manifest["metadata"], applied["metadata"]
    return seen.get("uid") == written.get("uid") and int(seen["resourceVersion"]) >= int(written["resourceVersion"])


def _until_changed(mirror: Mirror, name: str, namespace: str, wall_seconds: float, seen: Manifest | None) -> None:
    version = None if seen is None else str(seen["metadata"].get("resourceVersion"))
    mirror.wait_for(lambda now: _version(now, name, namespace) != version, wall_seconds)


def _version(mirror: Mirror, name: str, namespace: str) -> str | None:
    one = mirror.get(name, namespace)
    return None if one is None else str(one["metadata"].get("resourceVersion"))
