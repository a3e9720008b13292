"""Shared state of all simulated controllers: the API, the clock and one mirror per kind."""

from __future__ import annotations

import contextlib

from lab.control_plane.api import (
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    VOLUME_SNAPSHOT,
    ClusterApi,
    Manifest,
)
from lab.control_plane.mirror import Mirror
from lab.results.clock import Clock

SIMULATED_NODE = "kwok.x-k8s.io/node"
"""Annotation (value "fake") of nodes that kwok keeps alive."""


class World:
    """The API, the clock and the mirrors. Enter it after all listeners are added."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        self.api, self.clock = api, clock
        self.nodes = Mirror(api, NODE)
        self.pods = Mirror(api, POD)
        self.claims = Mirror(api, PERSISTENT_VOLUME_CLAIM)
        self.volumes = Mirror(api, PERSISTENT_VOLUME)
        self.snapshots = Mirror(api, VOLUME_SNAPSHOT)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> World:
        # Volumes before pods and nodes: a pod's listener may look up its claim.
        for mirror in (self.volumes, self.claims, self.snapshots, self.nodes, self.pods):
            self._stack.enter_context(mirror)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def is_ready(manifest: Manifest) -> bool:
    """Whether a pod or node has the condition Ready=True and is not being deleted."""
    if manifest["metadata"].get("deletionTimestamp"):
        return False
    return condition(manifest, "Ready") == "True"


def has_ended(pod: Manifest) -> bool:
    """Whether all containers of a pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def condition(manifest: Manifest, type_: str) -> str:
    """Status of a condition ("True", "False", "Unknown"); empty if missing."""
    for item in manifest.get("status", {}).get("conditions") or ():
        if item["type"] == type_:
            status: str = item["status"]
            return status
    return ""


def gpus(pod: Manifest) -> int:
    """GPUs requested by a pod's containers."""
    total = 0
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        total += int(limits.get("nvidia.com/gpu", 0))
    return total
