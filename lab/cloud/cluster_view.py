"""The autoscaler's view of the cluster: pending pods, free resources, empty nodes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from lab.cloud.autopilot.policies import SYSTEM_NAMESPACES
from lab.cloud.node_objects import MADE_HERE, SSD_GIB, Template
from lab.cloud.pod_needs import Amounts, PodNeeds, needs_of
from lab.cloud.scale_up import PodKey, Room
from lab.cloud.stock import Pool
from lab.cloud.world import World, has_ended
from lab.control_plane.api import Manifest
from lab.control_plane.mirror import Change

TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
"""Taint of a node that the autoscaler is about to remove. Source: cluster autoscaler."""
SHUTTING_DOWN: Final = "rehearsal.vllm-fleet.dev/shutting-down"
"""Annotation of a node that is shutting down: kwok does not make it Ready again."""
_KUBELETS_OWN: Final = "node.kubernetes.io/"
"""Prefix of taints that follow a node's conditions; a new node has them briefly."""


@dataclass(slots=True)
class _Node:
    """One node of the cluster."""

    kind: Template
    allocatable: Amounts
    usable: bool
    pool: Pool | None
    """None for nodes of others than the provisioner."""
    ssd_gib: int = 0
    """Its boot disk, if it is SSD Persistent Disk."""
    empty_since: float | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod without a node."""

    key: PodKey
    needs: PodNeeds
    said: str
    """The scheduler's message; empty before its first attempt."""
    claims: tuple[str, ...]
    """Names of its claims."""


@dataclass(eq=False)
class ClusterView:
    """Updated by listeners. Thread-safe."""

    world: World
    on_waiting: Callable[[], None]
    """Called when a pod becomes pending, its reason changes, or a node is removed while pods are pending."""
    on_empty: Callable[[str, float], None]
    """Called with a node's name and the simulated time since when it is empty."""
    on_node: Callable[[str], None]
    """Called with a new node's name, under the lock."""
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _placed: dict[str, dict[PodKey, Amounts]] = field(default_factory=dict)
    _where: dict[PodKey, str] = field(default_factory=dict)
    _waiting: dict[PodKey, Waiting] = field(default_factory=dict)
    _unseen: dict[PodKey, Waiting] = field(default_factory=dict)
    """Pods before the scheduler's first attempt."""
    _kinds: dict[Template, Template] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held for consistent reads."""

    def __post_init__(self) -> None:
        self.world.nodes.listen(self._node)
        self.world.pods.listen(self._pod)

    # Reads

    def rooms(self) -> list[Room]:
        """Free resources of each schedulable node."""
        with self.lock:
            return [Room(node.kind, self._free(name, node)) for name, node in self._nodes.items() if node.usable]

    def in_use(self) -> Counter[Pool]:
        """Nodes by pool."""
        with self.lock:
            return Counter(node.pool for node in self._nodes.values() if node.pool is not None)

    def ssd_gib(self) -> int:
        """Boot disks of the nodes that are SSD Persistent Disk."""
        with self.lock:
            return sum(node.ssd_gib for node in self._nodes.values())

    def waiting(self) -> list[Waiting]:
        """Pending pods, the oldest first.

        Pods that the scheduler has not tried yet are included if they equal one that it could not place: the scheduler runs in
        wall time, which a fast clock multiplies.
        """
        with self.lock:
            said = {one.needs: one.said for one in self._waiting.values()}
            alike = [replace(one, said=said[one.needs]) for one in self._unseen.values() if one.needs in said]
            return [*self._waiting.values(), *alike]

    def has_work(self) -> bool:
        """Whether the cluster has user pods, scheduled or pending."""
        with self.lock:
            return any(key[0] not in SYSTEM_NAMESPACES for key in (*self._where, *self._waiting, *self._unseen))

    def empty_since(self, name: str) -> float | None:
        """Since when one of the provisioner's nodes is empty; None if it is not."""
        with self.lock:
            node = self._nodes.get(name)
            return node.empty_since if node is not None and node.pool is not None else None

    def is_wanted(self, name: str) -> bool:
        """Whether a pending pod fits this node, so that the scheduler may still use it."""
        with self.lock:
            node = self._nodes.get(name)
            return node is not None and any(
                one.needs.amounts.times_in(self._free(name, node)) and not node.kind.unmet(one.needs)
                for one in self._waiting.values()
            )

    def _free(self, name: str, node: _Node) -> Amounts:
        free = node.allocatable
        for amounts in self._placed.get(name, {}).values():
            free = free.minus(amounts)
        return free

    # Changes

    def _node(self, change: Change, manifest: Manifest, _: Manifest | None) -> None:
        name = manifest["metadata"]["name"]
        if change == "deleted":
            with self.lock:
                self._nodes.pop(name, None)
                left_behind = bool(self._waiting)
            if left_behind:
                self.on_waiting()
            return
        emptied = None
        with self.lock:
            before = self._nodes.get(name)
            node = self._read(manifest)
            node.empty_since = None if before is None else before.empty_since
            self._nodes[name] = node
            if before is None:
                self.on_node(name)
                if node.pool is not None and not self._placed.get(name):
                    node.empty_since = emptied = self.world.clock.now_seconds()
        if emptied is not None:
            self.on_empty(name, emptied)

    def _read(self, manifest: Manifest) -> _Node:
        metadata, spec = manifest["metadata"], manifest.get("spec", {})
        annotations = metadata.get("annotations") or {}
        labels = {key: value for key, value in metadata["labels"].items() if key != "kubernetes.io/hostname"}
        taints = tuple(
            (taint["key"], taint.get("value") or "", taint["effect"])
            for taint in spec.get("taints") or ()
            if not taint["key"].startswith(_KUBELETS_OWN)
        )
        kind = Template(frozenset(labels.items()), taints)
        mode, _, name = annotations.get(MADE_HERE, "").partition("/")
        return _Node(
            kind=self._kinds.setdefault(kind, kind),
            allocatable=Amounts.of_resources(manifest["status"].get("allocatable") or {}),
            usable=not spec.get("unschedulable")
            and SHUTTING_DOWN not in annotations
            and all(key != TO_BE_DELETED for key, _, _ in taints),
            pool=(mode, name) if mode else None,
            ssd_gib=int(annotations.get(SSD_GIB, 0)),
        )

    def _pod(self, change: Change, manifest: Manifest, _: Manifest | None) -> None:
        metadata = manifest["metadata"]
        key = (metadata["namespace"], metadata["name"])
        over = change == "deleted" or has_ended(manifest)
        node = "" if over else manifest["spec"].get("nodeName", "")
        emptied = ""
        with self.lock:
            if self._where.get(key, "") != node:
                emptied = self._move(key, node, manifest)
            tell = self._wait(key, manifest, pending=not over and not node and "deletionTimestamp" not in metadata)
            since = self._nodes[emptied].empty_since if emptied in self._nodes else None
        if tell:
            self.on_waiting()
        if since is not None:
            self.on_empty(emptied, since)

    def _wait(self, key: PodKey, manifest: Manifest, *, pending: bool) -> bool:
        """Record whether the pod is pending; returns whether that changed."""
        before = self._waiting.get(key) or self._unseen.get(key)
        scheduled = _scheduled(manifest) if pending else None
        if not pending or (scheduled is not None and scheduled.get("reason") != "Unschedulable"):
            self._waiting.pop(key, None)
            self._unseen.pop(key, None)
            return False
        needs = needs_of(manifest) if before is None else before.needs
        said = "" if scheduled is None else scheduled.get("message") or "unschedulable"
        now = Waiting(key, needs, said, _claims(manifest))
        if not said:
            self._unseen[key] = now
            return before is None
        self._unseen.pop(key, None)
        self._waiting[key] = now  # A known pod keeps its position.
        return before is None or before.said != said

    def _move(self, key: PodKey, node: str, manifest: Manifest) -> str:
        """Move a pod to another node or none; returns the name of the node that became empty, or ""."""
        emptied = ""
        before = self._where.pop(key, "")
        if before:
            left = self._placed[before]
            del left[key]
            there = self._nodes.get(before)
            if not left:
                del self._placed[before]
                if there is not None:
                    there.empty_since, emptied = self.world.clock.now_seconds(), before
        if node:
            self._where[key] = node
            self._placed.setdefault(node, {})[key] = needs_of(manifest).amounts
            if node in self._nodes:
                self._nodes[node].empty_since = None
        return emptied


def _scheduled(pod: Manifest) -> Manifest | None:
    """The condition PodScheduled if False; None before the scheduler's first attempt."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            found: Manifest = condition
            return found
    return None


def _claims(pod: Manifest) -> tuple[str, ...]:
    return tuple(
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    )
