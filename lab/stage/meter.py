"""Numbers of GPU nodes, GPUs and replicas over time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from lab.cloud.world import World, has_ended, is_ready
from lab.control_plane.api import Manifest
from lab.control_plane.mirror import Change

GPU_LABEL: Final = "cloud.google.com/gke-accelerator"
GPU_COUNT_LABEL: Final = "cloud.google.com/gke-accelerator-count"


@dataclass
class Series:
    """A number over simulated time, as steps."""

    steps: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def add(self, at_seconds: float, value: int) -> None:
        """The number is `value` from now on."""
        if value != self.steps[-1][1]:
            self.steps.append((at_seconds, value))

    @property
    def now(self) -> int:
        """The latest value."""
        return self.steps[-1][1]

    def at(self, seconds: float) -> int:
        """The value at that moment."""
        return next((value for since, value in reversed(self.steps) if since <= seconds), self.steps[0][1])

    def within(self, since_seconds: float) -> list[int]:
        """Every value held at or after that moment."""
        before = [value for at, value in self.steps if at <= since_seconds][-1:]
        return before + [value for at, value in self.steps if at > since_seconds]

    def highest(self, since_seconds: float = 0.0) -> int:
        """The largest value since."""
        return max(self.within(since_seconds))

    def lowest(self, since_seconds: float = 0.0) -> int:
        """The smallest value since."""
        return min(self.within(since_seconds))

    def first_at(self, value: int, since_seconds: float = 0.0) -> float | None:
        """When the number first reached `value` or more at or after that moment; None if it never did."""
        if self.within(since_seconds)[0] >= value:
            return since_seconds
        return next((at for at, step in self.steps if at > since_seconds and step >= value), None)

    def gone_at(self, since_seconds: float) -> float:
        """When the number fell to zero at or after that moment; that moment, if it was zero then."""
        return next((at for at, step in self.steps if at >= since_seconds and step == 0), since_seconds)

    def integral(self, since_seconds: float, until_seconds: float) -> float:
        """Sum of value times seconds over a window: node-seconds, pod-seconds."""
        total, value, at = 0.0, self.within(since_seconds)[0], since_seconds
        for step_at, step in self.steps:
            if step_at <= since_seconds:
                continue
            end = min(step_at, until_seconds)
            total += value * max(0.0, end - at)
            value, at = step, end
            if step_at >= until_seconds:
                return total
        return total + value * max(0.0, until_seconds - at)


class Meter:
    """Counts nodes and pods. Construct it before the world is entered."""

    def __init__(self, world: World, server: str) -> None:
        """`server`: the value of the server pods' label `app`."""
        self._world, self._server = world, server
        self._gpu_nodes: dict[str, int] = {}
        self._ready: set[str] = set()
        self._alive: set[str] = set()
        self.gpu_nodes = Series()
        """Existing GPU nodes, in use or not: billed."""
        self.gpus = Series()
        """Their GPUs."""
        self.ready_servers = Series()
        """Ready server pods."""
        self.servers = Series()
        """Server pods that are neither finished nor being deleted."""
        self._lock = threading.Lock()
        world.nodes.listen(self._node)
        world.pods.listen(self._pod)

    def _node(self, change: Change, node: Manifest, _: Manifest | None) -> None:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        if GPU_LABEL not in labels:
            return
        with self._lock:
            self._gpu_nodes.pop(name, None)
            if change != "deleted":
                self._gpu_nodes[name] = int(labels.get(GPU_COUNT_LABEL, 0))
            now = self._world.clock.now_seconds()
            self.gpu_nodes.add(now, len(self._gpu_nodes))
            self.gpus.add(now, sum(self._gpu_nodes.values()))

    def _pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get("app") != self._server:
            return
        here = change != "deleted"
        over = has_ended(pod) or "deletionTimestamp" in metadata
        key = f"{metadata['namespace']}/{metadata['name']}"
        now = self._world.clock.now_seconds()
        with self._lock:
            _keep(self._ready, key, here and not over and is_ready(pod))
            _keep(self._alive, key, here and not over)
            self.ready_servers.add(now, len(self._ready))
            self.servers.add(now, len(self._alive))


def _keep(names: set[str], name: str, there: bool) -> None:
    if there:
        names.add(name)
    else:
        names.discard(name)
