"""A world without a cluster: mirrors that a test feeds, and an API that keeps what is written to it."""
# ruff: noqa: ARG002 - the fake has the real API's parameters

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from lab.cloud.machines import with_gpus
from lab.cloud.pod_needs import PodNeeds, needs_of
from lab.cloud.world import World
from lab.control_plane.api import NODE, POD, ApiRefusedError, ClusterApi, Kind, Manifest
from lab.control_plane.mirror import Change, Mirror
from lab.results.clock import Clock

GKE = "cloud.google.com"
SPOT = {f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/gke-spot": "true"}
GPU_TOLERATIONS = [
    {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
    {"key": f"{GKE}/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
]
A4 = with_gpus("a4-highgpu-8g")
NO_NODE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
WAIT = 10.0
_uids = itertools.count(1)


class FakeApi:
    """The few calls that Google's part makes. Nodes that are created or deleted show in the world, pods do when written."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.created: list[Manifest] = []
        self.patches: list[tuple[str, str, Any, str]] = []
        self.deleted: list[tuple[str, str]] = []
        self.objects: dict[tuple[Kind, str], Manifest] = {}
        """What `get` finds."""
        self.refuse_nodes = False
        self.evicted: list[str] = []
        self.refuse_evictions = False
        """Whether a disruption budget allows none."""
        self.last_at: dict[tuple[str, str, str], float] = {}
        """When an object was last "patched" or "deleted", by kind and name, simulated seconds."""
        self._lock = threading.Lock()

    def create(self, manifest: Manifest) -> Manifest:
        if manifest["kind"] == "Node" and self.refuse_nodes:
            raise ApiRefusedError(403, "Forbidden", "no")
        # Fed first: a test that finds it in `nodes` finds it in the world, too.
        if manifest["kind"] == "Node":
            feed(self._there.nodes, "added", manifest)
        with self._lock:
            self.created.append(manifest)
        return manifest

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Manifest | None:
        return self.objects.get((kind, name))

    def list_all(
        self, kind: Kind, namespace: str | None = None, *, field_selector: str = "", **_: str
    ) -> list[Manifest]:
        if kind != POD:
            return [value for (found, _), value in self.objects.items() if found == kind]
        node = field_selector.removeprefix("spec.nodeName=")
        return [pod for pod in self._there.pods.all() if pod["spec"].get("nodeName") == node]

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        subresource: str = "",
        patch_type: str = "merge",
    ) -> Manifest:
        with self._lock:
            self.patches.append((str(kind), name, body, subresource))
            self.last_at[str(kind), name, "patched"] = self._there.clock.now_seconds()
        if kind == NODE and not subresource:
            node = copy.deepcopy(self._there.nodes.get(name))
            assert node is not None
            node["spec"] |= body.get("spec", {})
            node["metadata"].setdefault("annotations", {}).update(body.get("metadata", {}).get("annotations", {}))
            feed(self._there.nodes, "modified", node)
        return {}

    def evict(self, namespace: str, name: str) -> None:
        if self.refuse_evictions:
            raise ApiRefusedError(429, "TooManyRequests", "the budget allows none")
        with self._lock:
            self.evicted.append(name)

    def delete(self, kind: Kind, name: str, namespace: str | None = None, **_: Any) -> bool:
        with self._lock:
            self.deleted.append((str(kind), name))
            self.last_at[str(kind), name, "deleted"] = self._there.clock.now_seconds()
        if kind == NODE:
            node = self._there.nodes.get(name)
            if node is not None:
                feed(self._there.nodes, "deleted", node)
        return True

    @property
    def nodes(self) -> list[Manifest]:
        with self._lock:
            return [one for one in self.created if one["kind"] == "Node"]

    @property
    def events(self) -> list[Manifest]:
        with self._lock:
            return [one for one in self.created if one["kind"] == "Event"]

    @property
    def _there(self) -> World:
        assert self.world is not None
        return self.world


def make_world(speed: float = 6000.0) -> tuple[World, FakeApi]:
    clock, api = Clock(speed), FakeApi()
    world = World(cast(ClusterApi, api), clock)
    api.world = world
    return world, api


def feed(mirror: Mirror, change: Change, one: Manifest) -> None:
    """What a watch would bring: always a fresh object."""
    one = copy.deepcopy(one)
    one["metadata"]["resourceVersion"] = str(next(_uids))
    mirror._take(change, one)


def until(condition: Callable[[], Any], what: str = "", seconds: float = WAIT) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.002)
    raise AssertionError(f"never: {what}")


def gpu_pod(name: str = "server-0", **changes: Any) -> Manifest:
    """A server pod of the Spot stack, in essence, not looked at by the scheduler yet."""
    amounts = {"cpu": "160", "memory": "1000Gi", "ephemeral-storage": "500Gi", "nvidia.com/gpu": "8"}
    return pod(name, amounts, **{"nodeSelector": SPOT, "tolerations": GPU_TOLERATIONS, **changes})


def pod(name: str, amounts: dict[str, str], **spec: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "vllm", "uid": f"uid-{next(_uids)}", "labels": {}},
        "spec": {
            "containers": [{"name": "main", "image": "image", "resources": {"requests": amounts, "limits": amounts}}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def unschedulable(manifest: Manifest, said: str = NO_NODE) -> Manifest:
    """The same pod after the scheduler found no node for it."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    return {**copy.deepcopy(manifest), "status": {"phase": "Pending", "conditions": [condition]}}


def on_node(manifest: Manifest, node: str, phase: str = "Running", **status: Any) -> Manifest:
    """The same pod on a node."""
    bound = copy.deepcopy(manifest)
    bound["spec"]["nodeName"] = node
    running = {"name": "main", "image": "image", "state": {"running": {"startedAt": "2027-01-01T00:00:00Z"}}}
    bound["status"] = {"phase": phase, "containerStatuses": [{**running, "restartCount": 0, "ready": True}], **status}
    return bound


def pod_templates(objects: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Name of the workload and a pod of it, for every Deployment and Job among these objects."""
    for one in objects:
        if one["kind"] in ("Deployment", "Job"):
            made = copy.deepcopy(one["spec"]["template"])
            made["metadata"] |= {"name": "pod", "namespace": "vllm", "uid": "uid"}
            yield made["metadata"]["labels"]["app"], made


def needs(manifest: Manifest) -> PodNeeds:
    return needs_of(manifest)
