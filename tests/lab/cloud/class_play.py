"""Servers on nodes of a ComputeClass, with a provisioner and without a cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from lab.cloud.offers import COMPUTE_CLASS_KIND
from lab.cloud.provisioner import Provisioner
from lab.cloud.stock import Stock
from lab.cloud.timings import Timings
from lab.control_plane.api import Manifest
from tests.lab.cloud.fake_world import GKE, feed, gpu_pod, make_world, on_node, unschedulable, until

ZONE = "europe-west4-b"
RUNG = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}}
IN_CLASS = {f"{GKE}/compute-class": "rungs"}


class Play(AbstractContextManager["Play"]):
    """Servers that select the class `rungs`, each on a node of its own. Changes of the stock before `with` count for them."""

    def __init__(
        self, spec: Manifest, *, speed: float = 6000.0, servers: int = 1, selector: dict[str, str] | None = None
    ) -> None:
        self.world, self.api = make_world(speed)
        self.api.objects[COMPUTE_CLASS_KIND, "rungs"] = {"spec": spec}
        self.stock = Stock()
        self.provisioner = Provisioner(self.world, self.stock, Timings(), cluster="fleet", project="fleet-tests")
        self._planned = 0
        watch = self.provisioner._run_duration.watch

        def counted(node: Manifest) -> None:
            watch(node)
            self._planned += 1

        self.provisioner._run_duration.watch = counted  # type: ignore[method-assign]
        self.pods = [gpu_pod(f"server-{number}", nodeSelector=selector or IN_CLASS) for number in range(servers)]

    def __enter__(self) -> Play:
        self.provisioner.__enter__()
        for pod in self.pods:
            feed(self.world.pods, "modified", unschedulable(pod))
        self.first = self.nodes(len(self.pods))
        for pod, node in zip(self.pods, self.first, strict=True):
            feed(self.world.pods, "modified", on_node(pod, node["metadata"]["name"]))
        return self

    def __exit__(self, *error: object) -> None:
        self.provisioner.__exit__(*error)

    def nodes(self, count: int) -> list[Manifest]:
        """Every node made so far, once there are that many and the provisioner has planned their ends."""
        until(lambda: self._planned >= count, f"{count} nodes")
        return self.api.nodes

    def become_ready(self, node: Manifest) -> None:
        """As its kubelet reports it."""
        node["status"]["conditions"][0]["status"] = "True"
        feed(self.world.nodes, "modified", node)

    def is_there(self, node: Manifest) -> bool:
        """Whether the node exists."""
        return self.world.nodes.get(node["metadata"]["name"]) is not None

    def taints(self, node: Manifest) -> set[str]:
        """Keys of its taints now."""
        there = self.world.nodes.get(node["metadata"]["name"])
        return set() if there is None else {taint["key"] for taint in there["spec"]["taints"]}

    def failed(self) -> list[Any]:
        """Pods that a shutdown has ended."""
        return [
            name
            for kind, name, body, _ in self.api.patches
            if kind == "Pod" and body["status"].get("phase") == "Failed"
        ]
