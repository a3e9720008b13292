"""The end of nodes: Spot preemption."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from lab.cloud.cluster_view import SHUTTING_DOWN
from lab.cloud.node_objects import shutdown_seconds
from lab.cloud.persistence import until_answered
from lab.cloud.world import World, has_ended
from lab.control_plane.api import NODE, POD, ApiRefusedError, Manifest

LOG = logging.getLogger(__name__)
SHUTDOWN_REASON: Final = "Terminated"
SHUTDOWN_MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
# Source of both, and of the condition below: Kubernetes, the kubelet's graceful node shutdown.
IMPENDING_TERMINATION: Final = "cloud.google.com/impending-node-termination"
KILLED: Final = 137
"""Exit code of a killed container."""


@dataclass(eq=False)
class Shutdown:
    """A shutdown of nodes in progress."""

    nodes: tuple[str, ...]
    notice_at_seconds: float
    pods: list[tuple[str, str]] = field(default_factory=list)
    """Namespace and name of the pods on them."""
    _gone: threading.Event = field(default_factory=threading.Event)

    def wait(self, wall_seconds: float) -> bool:
        """Wait until the nodes are gone; False on timeout."""
        return self._gone.wait(wall_seconds)


def shut_down(world: World, node_names: Iterable[str], *, notice_seconds: float | None = None) -> Shutdown:
    """Take nodes away as Google does. Returns at the notice. Raises KeyError for an unknown node.

    At the notice the node becomes unready and its pods terminate; 15 s later, or what the node's kubelet leaves them (less with a shorter
    grace period or notice), they are Failed; at the end of the notice the node is deleted: after 30 s, or the kubelet's own. Disruption
    budgets do not apply. Pods of a deleted node are removed immediately; in a real cluster garbage collection takes a minute.
    """
    names = tuple(node_names)
    shutdown = Shutdown(names, world.clock.now_seconds())
    stop = threading.Event()
    for name in names:
        if world.nodes.get(name) is None:
            raise KeyError(f"node {name} does not exist")
    kubelets = {name: shutdown_seconds(world.nodes.get(name)) for name in names}
    if notice_seconds is None:
        notice_seconds = max(whole for _, whole in kubelets.values())
    for name in names:
        _give_notice(world, name, stop)
    running = [pod for pod in world.pods.all() if pod["spec"].get("nodeName") in names and not has_ended(pod)]
    shutdown.pods = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in running]
    for pod in running:
        _patch_pod(world, pod, _terminating(), stop)
    left = {name: min(of_pods, notice_seconds) for name, (of_pods, _) in kubelets.items()}
    threading.Thread(
        target=_end,
        args=(world, shutdown, _by_end(running, left), notice_seconds, stop),
        name="shutdown",
        daemon=True,
    ).start()
    return shutdown


# The steps of a shutdown


def _give_notice(world: World, name: str, stop: threading.Event) -> None:
    """Mark the node as shutting down. Annotation first, so that kwok does not make the node Ready again."""
    node = world.nodes.get(name) or {}
    taints = [
        *(node.get("spec", {}).get("taints") or ()),
        {"key": IMPENDING_TERMINATION, "value": "", "effect": "NoSchedule"},
    ]
    marked = {"metadata": {"annotations": {SHUTTING_DOWN: "true"}}, "spec": {"taints": taints}}
    not_ready = {
        "type": "Ready",
        "status": "False",
        "reason": "KubeletNotReady",
        "message": "node is shutting down",
        "lastHeartbeatTime": _now(),
        "lastTransitionTime": _now(),
    }
    until_answered(lambda: world.api.patch(NODE, name, None, marked), stop)
    status = {"status": {"conditions": [not_ready]}}
    until_answered(
        lambda: world.api.patch(NODE, name, None, status, subresource="status", patch_type="strategic"), stop
    )


def _end(
    world: World,
    shutdown: Shutdown,
    ends: Mapping[float, list[Manifest]],
    notice_seconds: float,
    stop: threading.Event,
) -> None:
    elapsed = 0.0
    for at_seconds, pods in sorted(ends.items()):
        world.clock.sleep(shutdown.notice_at_seconds + at_seconds - world.clock.now_seconds())
        for pod in pods:
            _fail(world, pod, stop)
        elapsed = at_seconds
    world.clock.sleep(shutdown.notice_at_seconds + max(elapsed, notice_seconds) - world.clock.now_seconds())
    for name in shutdown.nodes:
        until_answered(lambda name=name: world.api.delete(NODE, name), stop)  # type: ignore[misc]  # a default binds the name
    for namespace, name in shutdown.pods:
        until_answered(
            lambda name=name, namespace=namespace: world.api.delete(POD, name, namespace, grace_seconds=0),  # type: ignore[misc]
            stop,
        )
    shutdown._gone.set()


def _by_end(running: Iterable[Manifest], left: Mapping[str, float]) -> Mapping[float, list[Manifest]]:
    """Pods by their end, in seconds after the notice. `left`: what each node's kubelet leaves them."""
    ends: dict[float, list[Manifest]] = {}
    for pod in running:
        grace, most = pod["spec"].get("terminationGracePeriodSeconds"), left[pod["spec"]["nodeName"]]
        ends.setdefault(most if grace is None else min(most, float(grace)), []).append(pod)
    return ends


def _terminating() -> Manifest:
    """Status that the kubelet writes when it starts to terminate a pod, which still runs."""
    disruption = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": SHUTDOWN_MESSAGE,
        "lastTransitionTime": _now(),
    }
    return {"conditions": [disruption], "reason": SHUTDOWN_REASON, "message": SHUTDOWN_MESSAGE}


def _fail(world: World, pod: Manifest, stop: threading.Event) -> None:
    now = _now()
    statuses = [
        {
            **{key: value for key, value in one.items() if key != "state"},
            "ready": False,
            "started": False,
            "state": {"terminated": {"exitCode": KILLED, "reason": "Error", "finishedAt": now}},
        }
        for one in pod["status"].get("containerStatuses") or ()
    ]
    status = {
        **_unready("PodFailed", now),
        "phase": "Failed",
        "reason": SHUTDOWN_REASON,
        "message": SHUTDOWN_MESSAGE,
        "containerStatuses": statuses,
    }
    _patch_pod(world, pod, status, stop)


def _unready(reason: str, now: str) -> Manifest:
    return {
        "conditions": [
            {"type": type_, "status": "False", "reason": reason, "lastTransitionTime": now}
            for type_ in ("Ready", "ContainersReady")
        ]
    }


def _patch_pod(world: World, pod: Manifest, status: Manifest, stop: threading.Event) -> None:
    """Write a pod's status, unless it is gone."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]

    def write() -> Manifest:
        return world.api.patch(POD, name, namespace, {"status": status}, subresource="status", patch_type="strategic")

    _unless_gone(lambda: until_answered(write, stop))


def _unless_gone(call: Callable[[], object]) -> None:
    try:
        call()
    except ApiRefusedError as refusal:
        if refusal.status != 404:
            raise


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
