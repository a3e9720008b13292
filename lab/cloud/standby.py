"""Simulated leader election of endpoint pickers: the leader is Ready, standbys are not."""

from __future__ import annotations

import logging
import threading
from typing import Final

from lab.cloud.kubelet_stages import LEADER, LEADER_FLAG
from lab.cloud.persistence import StoppedError, until_answered
from lab.cloud.timings import Timings
from lab.cloud.world import World
from lab.control_plane.api import POD, ApiRefusedError, Manifest
from lab.control_plane.mirror import Change

LOG = logging.getLogger(__name__)
POOL_LABEL: Final = "inferencepool"
"""Label of the endpoint pickers of one pool. Source: chart inferencepool v1.4.0."""
Group = tuple[str, str]
"""Namespace and value of that label."""


class Standby:
    """Elects a leader per pool. Construct it before the world is entered, then enter it inside."""

    def __init__(self, world: World, timings: Timings) -> None:
        self._world, self._timings = world, timings
        self._alive: dict[Group, dict[str, None]] = {}
        self._leaders: dict[Group, str] = {}
        self._waiting: dict[Group, threading.Timer] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        world.pods.listen(self._pod)

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._lock:
            for timer in self._waiting.values():
                timer.cancel()

    def _pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        metadata = pod["metadata"]
        pool = (metadata.get("labels") or {}).get(POOL_LABEL)
        if pool is None or not stands_by(pod):
            return
        group, name = (metadata["namespace"], pool), metadata["name"]
        running = pod.get("status", {}).get("phase") == "Running" and not metadata.get("deletionTimestamp")
        with self._lock:
            alive = self._alive.setdefault(group, {})
            if change != "deleted" and running:
                alive.setdefault(name)
            else:
                alive.pop(name, None)
            leader = self._leaders.get(group)
            if leader in alive or not alive or group in self._waiting or self._stop.is_set():
                return
            # The first one leads immediately; a successor waits for the former leader's lease to expire.
            wait = 0.0 if leader is None else self._world.clock.wall_seconds(self._timings.lease_seconds)
            timer = threading.Timer(wait, self._elect, (group,))
            timer.daemon = True
            self._waiting[group] = timer
            timer.start()

    def _elect(self, group: Group) -> None:
        with self._lock:
            self._waiting.pop(group, None)
            name = next(iter(self._alive.get(group, ())), None)
            if name is None:
                self._leaders.pop(group, None)
                return
            self._leaders[group] = name
        body = {"metadata": {"annotations": {LEADER: "true"}}}
        try:
            until_answered(lambda: self._world.api.patch(POD, name, group[0], body), self._stop)
        except (ApiRefusedError, StoppedError) as error:
            LOG.info("picker %s: %s", name, error)
            return
        self._world.timeline.note("pod", name, "leads the endpoint pickers", mood="good")


def stands_by(pod: Manifest) -> bool:
    """Whether this endpoint picker elects a leader."""
    return any(
        argument.startswith(LEADER_FLAG)
        for container in pod["spec"]["containers"]
        for argument in container.get("args") or ()
    )
