"""Events of simulated disks."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime
from typing import Final

from lab.cloud.world import World
from lab.control_plane.api import Manifest

DRIVER_COMPONENT: Final = "pd.csi.storage.gke.io"
Subject = tuple[str, str, str]
"""Kind, namespace and name."""


class DiskReports:
    """Reports problems by object, each once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._troubles: dict[Subject, str] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def trouble(self, about: Manifest, reason: str, message: str) -> None:
        """Report a problem: a warning event on the object."""
        subject = _subject_of(about)
        with self._lock:
            if self._troubles.get(subject) == message:
                return
        # First: an unanswered call is repeated, and must not be filtered then.
        self._world.api.create(self._event(about, reason, message))
        with self._lock:
            self._troubles[subject] = message

    def clear(self, about: Manifest) -> None:
        """Reset the object after success or deletion."""
        with self._lock:
            self._troubles.pop(_subject_of(about), None)

    def _event(self, about: Manifest, reason: str, message: str) -> Manifest:
        metadata, now = about["metadata"], timestamp()
        with self._lock:
            number = next(self._numbers)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name'][:200]}.disks{number:x}", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": about["apiVersion"],
                "kind": about["kind"],
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning",
            "source": {"component": DRIVER_COMPONENT},
            "reportingComponent": DRIVER_COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def _subject_of(about: Manifest) -> Subject:
    return about["kind"], about["metadata"]["namespace"], about["metadata"]["name"]


def timestamp() -> str:
    """Wall time in the API's format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
