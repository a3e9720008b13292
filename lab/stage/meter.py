"""Numbers of GPU nodes, GPUs and replicas since a moment: their least and their most."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from lab.control_plane.api import Manifest
from lab.control_plane.mirror import Change, Mirror
from lab.nodes.labels import GPU_COUNT_LABEL, GPU_LABEL


@dataclass
class Series:
    """A number over time, as steps."""

    steps: list[tuple[float, int]] = field(default_factory=lambda: [(0.0, 0)])

    def add(self, at: float, value: int) -> None:
        """The number is `value` from now on."""
        if value != self.steps[-1][1]:
            self.steps.append((at, value))

    @property
    def now(self) -> int:
        """The latest value."""
        return self.steps[-1][1]

    def within(self, since: float) -> list[int]:
        """Every value held at or after that moment."""
        before = [value for at, value in self.steps if at <= since][-1:]
        return before + [value for at, value in self.steps if at > since]

    def highest(self, since: float = 0.0) -> int:
        """The largest value since."""
        return max(self.within(since))

    def lowest(self, since: float = 0.0) -> int:
        """The smallest value since."""
        return min(self.within(since))


class Meter:
    """Counts nodes and pods. Construct it before the mirrors are entered. Moments are of `time.monotonic`."""

    def __init__(self, nodes: Mirror, pods: Mirror, server: str) -> None:
        """`server`: the value of the server pods' label `app`."""
        self._server = server
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
        nodes.listen(self._node)
        pods.listen(self._pod)

    def _node(self, change: Change, node: Manifest, _: Manifest | None) -> None:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
        if GPU_LABEL not in labels:
            return
        with self._lock:
            self._gpu_nodes.pop(name, None)
            if change != "deleted":
                self._gpu_nodes[name] = int(labels.get(GPU_COUNT_LABEL, 0))
            now = time.monotonic()
            self.gpu_nodes.add(now, len(self._gpu_nodes))
            self.gpus.add(now, sum(self._gpu_nodes.values()))

    def _pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get("app") != self._server:
            return
        here = change != "deleted"
        over = has_ended(pod) or "deletionTimestamp" in metadata
        key = f"{metadata['namespace']}/{metadata['name']}"
        with self._lock:
            _keep(self._ready, key, here and not over and is_ready(pod))
            _keep(self._alive, key, here and not over)
            now = time.monotonic()
            self.ready_servers.add(now, len(self._ready))
            self.servers.add(now, len(self._alive))


def is_ready(pod: Manifest) -> bool:
    """Whether a pod has the condition Ready=True and is not being deleted."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def has_ended(pod: Manifest) -> bool:
    """Whether all containers of a pod have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _keep(names: set[str], name: str, there: bool) -> None:
    if there:
        names.add(name)
    else:
        names.discard(name)
