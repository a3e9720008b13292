"""Nodes for pods that the scheduler cannot place: the stack's machine for one with GPUs, a general one for others.

Nothing here decides whether a pod fits: the real scheduler does, and a pod that fits no such node stays Pending with its reason. Nodes
that nothing has used for a while go, as Autopilot's do.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from facts import node_room
from lab.control_plane.api import NODE, POD, ApiRefusedError, ApiUnreachableError, ClusterApi, Manifest
from lab.control_plane.mirror import Mirror
from lab.control_plane.programs import SIMULATED_NODES
from lab.nodes.labels import GPU_COUNT_LABEL, GPU_LABEL, LOCAL_SSD, MACHINE_TYPE, SPOT, ZONE
from lab.nodes.pods import GPU, is_stuck, requests, wanted_labels

if TYPE_CHECKING:
    from settings.stack import Settings

MADE: Final = "rehearsal.vllm-fleet.dev/made"
"""Annotation of the nodes made here."""
IDLE_SECONDS: Final = 2.0
"""How long a node stays unused. Assumed: the scheduler places a pod on a new node within a second."""
LOOK_SECONDS: Final = 0.2
GENERAL_CPU: Final = 16
GENERAL_MEMORY_GIB: Final = 64
GENERAL_DISK_GIB: Final = 200
"""A general node, unless a pod asks for more. Assumed: Autopilot does not publish its choice."""
PODS: Final = 32
"""Of a node. Source: GKE docs, Autopilot: a /26 of addresses and 32 pods a node."""


class NodeMaker:
    """Makes and removes nodes. A context manager; its mirrors are those of the stage."""

    def __init__(self, api: ClusterApi, settings: Settings, nodes: Mirror, pods: Mirror) -> None:
        self._api, self._settings, self._nodes, self._pods = api, settings, nodes, pods
        self._numbers = itertools.count(1)
        self._used: dict[str, float] = {}
        """When each node was last used, or made."""
        self._unseen: dict[str, Manifest] = {}
        """Nodes made here that the mirror does not have yet: on a busy machine it lags behind."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-maker", daemon=True)
        self.gpu_nodes: int | None = None
        """How many nodes with GPUs Google has at the most; None without a limit. Drills set it."""

    def __enter__(self) -> NodeMaker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def preempt(self, names: Iterable[str]) -> None:
        """Take nodes away as Google does with Spot capacity: their pods fail, whatever a disruption budget says, and the nodes go.

        Source: Kubernetes, the kubelet's graceful node shutdown (reason and message), and the pod garbage collector.
        """
        gone = set(names)
        ended = {
            "phase": "Failed",
            "reason": "Terminated",
            "message": "Pod was terminated in response to imminent node shutdown.",
        }
        for pod in self._pods.all():
            metadata = pod["metadata"]
            if pod["spec"].get("nodeName") in gone:
                try:
                    self._api.patch(
                        POD, metadata["name"], metadata["namespace"], {"status": ended}, subresource="status"
                    )
                except ApiRefusedError as refusal:
                    if refusal.status != 404:  # gone since the mirror saw it
                        raise
        for name in gone:
            self._delete(name)
        for pod in self._pods.all():
            if pod["spec"].get("nodeName") in gone:
                self._api.delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_seconds=0)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self._look()
            except (ApiRefusedError, ApiUnreachableError):  # The API server restarts, or something went meanwhile.
                continue

    def _look(self) -> None:
        now, pods = time.monotonic(), self._pods.all()
        made = self._made()
        stuck = [pod for pod in pods if is_stuck(pod)]
        with_gpus = [pod for pod in stuck if requests(pod).get(GPU)]
        others = [pod for pod in stuck if not requests(pod).get(GPU)]
        used = {pod["spec"].get("nodeName") for pod in pods if _counts(pod)}
        for node in made:
            name = node["metadata"]["name"]
            if name in used or name not in self._used:
                self._used[name] = now
            elif now - self._used[name] > IDLE_SECONDS:
                self._delete(name)
        self._make_for_gpus(with_gpus, [node for node in made if _gpus(node)], pods)
        self._make_general(others, [node for node in made if not _gpus(node)], used)

    def _delete(self, name: str) -> None:
        self._unseen.pop(name, None)
        self._api.delete(NODE, name)

    def _made(self) -> list[Manifest]:
        seen = [node for node in self._nodes.all() if MADE in (node["metadata"].get("annotations") or {})]
        for node in seen:
            self._unseen.pop(node["metadata"]["name"], None)
        return [*seen, *self._unseen.values()]

    def _make_for_gpus(self, stuck: list[Manifest], made: list[Manifest], pods: list[Manifest]) -> None:
        """As many nodes as the stuck pods need beside what is free; one at least serves them all."""
        there = {node["metadata"]["name"] for node in made if not node["spec"].get("unschedulable")}
        taken = sum(requests(pod).get(GPU, 0) for pod in pods if _counts(pod) and pod["spec"].get("nodeName") in there)
        free = self._settings.machine.gpus * len(there) - taken
        wanted, count = sum(requests(pod)[GPU] for pod in stuck), len(made)
        while free < wanted and (self.gpu_nodes is None or count < self.gpu_nodes):
            self._make(stuck[0], self._machine(stuck[0]))
            free, count = free + self._settings.machine.gpus, count + 1

    def _make_general(self, stuck: list[Manifest], made: list[Manifest], used: set[str | None]) -> None:
        """One node at a time for each set of wanted labels, until the scheduler has used it."""
        fresh = [node for node in made if node["metadata"]["name"] not in used]
        for pod in stuck:
            asked = wanted_labels(pod)
            if not any(asked.items() <= node["metadata"]["labels"].items() for node in fresh):
                fresh.append(self._make(pod, _general(pod)))

    def _machine(self, pod: Manifest) -> tuple[dict[str, str], dict[str, str]]:
        """Labels and size of the stack's machine."""
        machine, on_ssd = self._settings.machine, LOCAL_SSD in wanted_labels(pod)
        room = node_room.of_machine(machine, local_ssd=on_ssd)
        labels = {
            MACHINE_TYPE: machine.type,
            "kubernetes.io/arch": machine.arch,
            GPU_LABEL: machine.accelerator,
            GPU_COUNT_LABEL: str(machine.gpus),
        }
        size = {
            "cpu": f"{room.cpu_milli}m",
            "memory": str(room.memory_bytes),
            "ephemeral-storage": str(room.ephemeral_bytes),
            GPU: str(machine.gpus),
        }
        return labels, size

    def _make(self, pod: Manifest, machine: tuple[dict[str, str], dict[str, str]]) -> Manifest:
        own, size = machine
        name = f"node-{next(self._numbers)}"
        zone = next((zone for zone in self._settings.zones), f"{self._settings.region}-a")
        # What a pod asks for, GKE makes: capacity, compute class, zone. What the machine is, it is.
        labels = {ZONE: zone, "kubernetes.io/arch": "amd64", **wanted_labels(pod), **own}
        labels |= {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name, "topology.gke.io/zone": labels[ZONE]}
        taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}] if GPU in size else []
        if labels.get(SPOT) == "true":
            taints.append({"key": SPOT, "value": "true", "effect": "NoSchedule"})
        key, _, value = SIMULATED_NODES.partition("=")
        node = {
            "apiVersion": NODE.api_version,
            "kind": NODE.kind,
            "metadata": {"name": name, "labels": labels, "annotations": {key: value, MADE: "true"}},
            "spec": {"taints": taints},
            "status": {"capacity": {**size, "pods": str(PODS)}, "allocatable": {**size, "pods": str(PODS)}},
        }
        self._api.create(node)
        self._unseen[name] = node
        return node


def _general(pod: Manifest) -> tuple[dict[str, str], dict[str, str]]:
    asked, gib = requests(pod), 2**30
    size = {
        "cpu": str(max(GENERAL_CPU, round(asked.get("cpu", 0) + 1))),
        "memory": str(round(max(GENERAL_MEMORY_GIB * gib, asked.get("memory", 0)))),
        "ephemeral-storage": str(round(max(GENERAL_DISK_GIB * gib, asked.get("ephemeral-storage", 0)))),
    }
    return {MACHINE_TYPE: "general"}, size


def _gpus(node: Manifest) -> int:
    return int(node["status"].get("allocatable", {}).get(GPU, 0))


def _counts(pod: Manifest) -> bool:
    """Whether it still uses its node."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
