"""Simulated weights writer: progress of each attempt, and failures on request."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import Final

from lab.cloud.kubelet_stages import EXIT_CODE, RUN_SECONDS
from lab.cloud.persistence import StoppedError, until_answered
from lab.cloud.timings import Timings
from lab.cloud.world import World
from lab.control_plane.api import POD, ApiRefusedError, Manifest
from lab.control_plane.mirror import Change
from workloads.names import WRITER_APP

LOG = logging.getLogger(__name__)
LEAST_SECONDS: Final = 5.0
"""An attempt on a complete volume. Assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One pod of the writer's Job."""

    pod: str
    claim: str
    """Claim of its volume, which keeps written data."""
    planned_share: float
    """Share of the download that this attempt will write: the rest, or up to its failure."""
    fails_with: int = 0
    began_seconds: float | None = None
    """Simulated start of its container."""
    seconds: float = 0.0
    """Duration."""
    share_written: float = 0.0
    """Share of the download that it wrote."""
    exit_code: int | None = None
    """None until it ends, or if it was killed."""
    over: bool = False


class Writer:
    """Tracks the writer's pods. Construct it before the world is entered, then enter it inside."""

    def __init__(self, world: World, timings: Timings) -> None:
        self._world, self._timings = world, timings
        self._attempts: dict[str, Attempt] = {}
        self._written: dict[tuple[str, str], float] = {}
        self._failure: tuple[float, int] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        world.pods.listen(self._pod)
        world.claims.listen(self._claim)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def fail_next(self, *, after_share: float, exit_code: int) -> None:
        """Make the next attempt fail with this exit code at that share of the download, 0 to 1."""
        with self._lock:
            self._failure = (after_share, exit_code)

    def attempts(self) -> tuple[Attempt, ...]:
        """Attempts, in order."""
        with self._lock:
            return tuple(self._attempts.values())

    def attempts_since(self, seconds: float) -> int:
        """Number of attempts started at or after that simulated moment."""
        return sum(
            attempt.began_seconds is not None and attempt.began_seconds >= seconds for attempt in self.attempts()
        )

    def _pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get("app") != WRITER_APP:
            return
        phase = pod.get("status", {}).get("phase")
        with self._lock:
            attempt = self._attempts.get(metadata["uid"])
            if attempt is None:
                if change == "deleted" or phase in ("Succeeded", "Failed"):
                    return
                attempt = self._plan(pod)
            if attempt.began_seconds is None and phase == "Running":
                attempt = replace(attempt, began_seconds=self._world.clock.now_seconds())
            if not attempt.over and (change == "deleted" or phase in ("Succeeded", "Failed")):
                attempt = self._account(attempt, pod)
            self._attempts[metadata["uid"]] = attempt

    def _plan(self, pod: Manifest) -> Attempt:
        """Plan a new attempt; annotate its pod unless it writes the whole download."""
        claim = _claim_name(pod)
        written = self._written.get((pod["metadata"]["namespace"], claim), 0.0)
        share, code = 1.0 - written, 0
        if self._failure is not None:
            until, code = self._failure
            share, self._failure = max(0.0, min(until, 1.0) - written), None
        if share < 1.0 or code:
            seconds = max(LEAST_SECONDS, share * self._timings.writer_seconds)
            annotations = {RUN_SECONDS: f"{seconds:.3f}", EXIT_CODE: str(code)}
            # In a thread: the mirror's thread must not wait for the API server.
            threading.Thread(target=self._annotate, args=(pod, annotations), name="writer", daemon=True).start()
        return Attempt(pod=pod["metadata"]["name"], claim=claim, planned_share=share, fails_with=code)

    def _annotate(self, pod: Manifest, annotations: dict[str, str]) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        body = {"metadata": {"annotations": annotations}}
        try:
            until_answered(lambda: self._world.api.patch(POD, name, namespace, body), self._stop)
        except (ApiRefusedError, StoppedError) as error:
            LOG.info("writer %s: %s", name, error)

    def _account(self, attempt: Attempt, pod: Manifest) -> Attempt:
        seconds = 0.0 if attempt.began_seconds is None else self._world.clock.now_seconds() - attempt.began_seconds
        code = _exit_code(pod)
        # As planned; if interrupted otherwise, in proportion to time.
        as_planned = code is not None and code == attempt.fails_with
        share = min(attempt.planned_share, seconds / self._timings.writer_seconds)
        if as_planned:
            share = attempt.planned_share
        volume = (pod["metadata"]["namespace"], attempt.claim)
        self._written[volume] = min(1.0, self._written.get(volume, 0.0) + share)
        self._world.timeline.note(
            "pod",
            attempt.pod,
            f"download {'complete' if code == 0 else f'ended at {self._written[volume]:.0%}'}",
            mood="good" if code == 0 else "bad",
            since_seconds=attempt.began_seconds,
        )
        return replace(attempt, seconds=seconds, share_written=share, exit_code=code, over=True)

    def _claim(self, change: Change, claim: Manifest, _: Manifest | None) -> None:
        if change == "deleted":
            with self._lock:
                self._written.pop((claim["metadata"]["namespace"], claim["metadata"]["name"]), None)


def _claim_name(pod: Manifest) -> str:
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            name: str = volume["persistentVolumeClaim"]["claimName"]
            return name
    return ""


def _exit_code(pod: Manifest) -> int | None:
    """Exit code of the pod's first ended container; None if none has ended."""
    for status in pod.get("status", {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated")
        if ended is not None:
            return int(ended["exitCode"])
    return None
