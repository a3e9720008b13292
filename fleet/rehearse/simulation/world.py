"""What every stand-in looks at: one mirror per kind, shared, so that a thousand pods are read once."""

from __future__ import annotations

import contextlib

from fleet.rehearse.api import (
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    VOLUME_SNAPSHOT,
    ClusterApi,
    Manifest,
)
from fleet.rehearse.clock import Clock
from fleet.rehearse.mirror import Mirror
from fleet.rehearse.timeline import Timeline

SIMULATED_NODE = "kwok.x-k8s.io/node"
"""Annotation (value "fake") of every node that kwok keeps alive."""
VOLUMES_ATTACHED = "rehearsal.vllm-fleet.dev/volumes"
"""Annotation that the disk stand-in writes ("attached") on a scheduled pod once each of its volumes is attached. A pod with
persistent volumes starts its containers only then."""

COMPILED = "rehearsal.vllm-fleet.dev/compiled"
"""Annotation that the stand-in for compile caches writes on a server's pod that keeps them: "warm" where it found them, else "cold". Such
a pod starts its containers only then."""

OPEN_JOURNAL = "rehearsal.vllm-fleet.dev/open-journal"
"""Annotation ("true") of an image that was taken while a node had its disk mounted, and of every volume made from it: ext4
wants to replay the journal before it mounts, which a disk that is attached read-only does not allow."""


class World:
    """The cluster, the clock and the shared mirrors. Enter it after every stand-in has added its listeners."""

    def __init__(self, api: ClusterApi, clock: Clock, timeline: Timeline) -> None:
        self.api, self.clock, self.timeline = api, clock, timeline
        self.nodes = Mirror(api, NODE)
        self.pods = Mirror(api, POD)
        self.claims = Mirror(api, PERSISTENT_VOLUME_CLAIM)
        self.volumes = Mirror(api, PERSISTENT_VOLUME)
        self.snapshots = Mirror(api, VOLUME_SNAPSHOT)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> World:
        # Volumes before pods and nodes: whoever hears of a pod may look up its claim.
        for mirror in (self.volumes, self.claims, self.snapshots, self.nodes, self.pods):
            self._stack.enter_context(mirror)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def has_open_journal(one: Manifest) -> bool:
    """Whether an image, or a volume made from it, holds a journal that was never replayed."""
    return OPEN_JOURNAL in (one["metadata"].get("annotations") or {})


def is_ready(one: Manifest) -> bool:
    """Whether a pod or node has the condition Ready=True and is not being deleted."""
    if one["metadata"].get("deletionTimestamp"):
        return False
    return condition(one, "Ready") == "True"


def condition(one: Manifest, type_: str) -> str:
    """Status of a condition ("True", "False", "Unknown"), or "" when the object does not have it."""
    for item in one.get("status", {}).get("conditions") or ():
        if item["type"] == type_:
            status: str = item["status"]
            return status
    return ""


def gpus(pod: Manifest) -> int:
    """GPUs that a pod's containers ask for."""
    total = 0
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        total += int(limits.get("nvidia.com/gpu", 0))
    return total
