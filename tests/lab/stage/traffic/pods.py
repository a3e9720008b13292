"""Pods and nodes that a test writes by hand, told as a mirror tells them."""

from __future__ import annotations

import itertools
from typing import Any

from lab.control_plane.api import Manifest
from lab.control_plane.mirror import Change, Listener

NAMESPACE, SERVER = "vllm", "qwen35-server"
ONE_API_SERVER = ("--api-server-count=1", "--shutdown-timeout=10")
_UIDS = itertools.count(1)


class FakeObjects:
    """Objects by name, with the part of `Mirror` that a fleet uses."""

    def __init__(self) -> None:
        self._objects: dict[str, Manifest] = {}
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def all(self) -> list[Manifest]:
        return list(self._objects.values())

    def put(self, manifest: Manifest) -> None:
        name = manifest["metadata"]["name"]
        before = self._objects.get(name)
        self._objects[name] = manifest
        self._tell("modified" if before else "added", manifest, before)

    def remove(self, name: str) -> None:
        self._tell("deleted", self._objects.pop(name), None)

    def _tell(self, change: Change, manifest: Manifest, before: Manifest | None) -> None:
        for listener in self._listeners:
            listener(change, manifest, before)


def pod(
    name: str,
    *,
    ready: bool = True,
    node: str = "",
    pre_stop_seconds: int | None = 5,
    grace_seconds: int | None = 15,
    args: tuple[str, ...] = (),
    restarts: int = 0,
    labels: dict[str, str] | None = None,
) -> Manifest:
    """A server pod as the program renders it, reduced to what its end and its traffic depend on."""
    container: dict[str, Any] = {
        "name": "vllm",
        "command": ["vllm", "serve"],
        "args": ["/weights/model", "--data-parallel-size=8", *args],
    }
    if pre_stop_seconds is not None:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": pre_stop_seconds}}}
    spec: dict[str, Any] = {"containers": [container], "nodeName": node or f"node-of-{name}"}
    if grace_seconds is not None:
        spec["terminationGracePeriodSeconds"] = grace_seconds
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{next(_UIDS)}",
            "labels": {"app": SERVER} if labels is None else labels,
        },
        "spec": spec,
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"name": "vllm", "restartCount": restarts}],
        },
    }


def changed(
    manifest: Manifest,
    *,
    deleted_with_grace: int | None = None,
    notice: bool = False,
    phase: str = "",
    ready: bool | None = None,
    restarts: int | None = None,
) -> Manifest:
    """The same pod later."""
    metadata, status = dict(manifest["metadata"]), dict(manifest["status"])
    conditions = [dict(item) for item in status["conditions"]]
    if deleted_with_grace is not None:
        metadata |= {"deletionTimestamp": "2026-04-01T00:00:00Z", "deletionGracePeriodSeconds": deleted_with_grace}
    if notice:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"})
        ready = False
    if ready is not None:
        conditions[0]["status"] = "True" if ready else "False"
    if phase:
        status["phase"] = phase
    if restarts is not None:
        status["containerStatuses"] = [{"name": "vllm", "restartCount": restarts}]
    return {**manifest, "metadata": metadata, "status": {**status, "conditions": conditions}}
