"""Simulated leader election of endpoint pickers: the leader is Ready, standbys are not."""

from __future__ import annotations

import threading
from typing import Final

from lab.cloud.agenda import Agenda
from lab.cloud.kubelet_stages import LEADER, LEADER_FLAG
from lab.cloud.world import World
from lab.control_plane.api import POD, Manifest
from lab.control_plane.mirror import Change

POOL_LABEL: Final = "inferencepool"
"""Label of the endpoint pickers of one pool. Source: chart inferencepool v1.4.0."""
Group = tuple[str, str]
"""Namespace and value of that label."""


class Standby:
    """Lets the first picker of a pool lead, and the next one when it is gone. Construct it before the world is entered, then enter it
    inside.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._alive: dict[Group, dict[str, None]] = {}
        self._leaders: dict[Group, str] = {}
        self._lock = threading.Lock()
        self._agenda = Agenda(world.clock, "standby", workers=1)
        world.pods.listen(self._pod)

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, *_: object) -> None:
        self._agenda.close()

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
            if not alive or self._leaders.get(group) in alive:
                return
            leader = self._leaders[group] = next(iter(alive))
        self._agenda.soon(self._lead, leader, group[0])

    def _lead(self, name: str, namespace: str) -> None:
        self._world.api.patch(POD, name, namespace, {"metadata": {"annotations": {LEADER: "true"}}})


def stands_by(pod: Manifest) -> bool:
    """Whether this endpoint picker elects a leader."""
    return any(
        argument.startswith(LEADER_FLAG)
        for container in pod["spec"]["containers"]
        for argument in container.get("args") or ()
    )
