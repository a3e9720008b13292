"""What people get to see of disks: events on claims and snapshots, moments on the timeline, and the reason in plain words."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime
from typing import Final

from rehearsal.api import Manifest
from rehearsal.simulation.disk_rules import DiskTrouble
from rehearsal.simulation.world import World
from rehearsal.timeline import Mood

DRIVER_COMPONENT: Final = "pd.csi.storage.gke.io"
CONTROLLER_COMPONENT: Final = "attachdetach-controller"
"""Writes the events about attaching, on the pod."""
Subject = tuple[str, str, str]
"""Kind, namespace (empty for what has none) and name."""


class DiskReports:
    """Troubles by subject. Each is told once; the same one again, in a retry, is not news."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._troubles: dict[Subject, DiskTrouble] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def trouble(self, about: Manifest, trouble: DiskTrouble, *, prefix: str = "") -> None:
        """Something does not work, and why; `prefix` is what the event says before the driver's own words."""
        subject = subject_of(about)
        with self._lock:
            if self._troubles.get(subject) == trouble:
                return
        # First: a call that nobody answers is made again, and then this still has to be news.
        self._world.api.create(self._event(about, trouble, prefix))
        with self._lock:
            self._troubles[subject] = trouble
        self.note(about["metadata"]["name"], trouble.message, mood="bad")

    def clear(self, about: Manifest) -> None:
        """It works now, or is gone."""
        with self._lock:
            self._troubles.pop(subject_of(about), None)

    def why(self, kind: str, namespace: str, name: str) -> DiskTrouble | None:
        """Why this claim, pod, attachment or snapshot waits; None when nothing is known to be wrong with it."""
        return self._troubles.get((kind, namespace, name))

    def all(self) -> dict[Subject, DiskTrouble]:
        """Every trouble there is now."""
        with self._lock:
            return dict(self._troubles)

    def note(self, subject: str, text: str, *, mood: Mood = "plain", since_seconds: float | None = None) -> None:
        """A moment, or a stretch, on the volume lane."""
        self._world.timeline.note("volume", subject, text, mood=mood, since_seconds=since_seconds)

    def _event(self, about: Manifest, trouble: DiskTrouble, prefix: str) -> Manifest:
        metadata, now = about["metadata"], timestamp()
        component = CONTROLLER_COMPONENT if trouble.event == "FailedAttachVolume" else DRIVER_COMPONENT
        namespace = metadata.get("namespace", "default")
        with self._lock:
            number = next(self._numbers)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name'][:200]}.disks{number:x}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata["uid"],
            },
            "reason": trouble.event,
            "message": (prefix + trouble.shown)[:1024],
            "type": "Warning",
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def subject_of(about: Manifest) -> Subject:
    """The subject that an object is."""
    return about["kind"], about["metadata"].get("namespace", ""), about["metadata"]["name"]


def timestamp() -> str:
    """Wall time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
