"""Reads a stack's objects with kubectl. A kind that cannot be read is reported; the others are still read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from facts.names import HTTP_PORT, ROUTER_APP, epp_name
from fleet.clients.errors import LiveError
from fleet.clients.side_by_side import side_by_side
from fleet.verify.facts import Cluster, Node, Pod
from settings.sections.gateway import GATEWAY_NAME

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from settings.stack import Settings

GATEWAYS: Final = "gateways.gateway.networking.k8s.io"
ROUTES: Final = "httproutes.gateway.networking.k8s.io"
POOLS: Final = "inferencepools.inference.networking.k8s.io"
HEALTH_POLICIES: Final = "healthcheckpolicies.networking.gke.io"
BACKEND_POLICIES: Final = "gcpbackendpolicies.networking.gke.io"
DEPLOYMENTS: Final = "deployments.apps"
CONTAINER: Final = "vllm"
AT_ONCE: Final = 12
"""Parallel kubectl processes. Assumed: enough for the article's fleet, little for a laptop's memory."""
READ_SECONDS: Final = 8.0
"""Timeout for one object or list; kubectl gets 15 s more for credentials."""
_UNKNOWN_KIND: Final = "doesn't have a resource type"
"""kubectl's message for a missing custom resource. Source: kubectl 1.32."""


def read_pods(kubectl: Kubectl, settings: Settings) -> tuple[Pod, ...]:
    """The server's pods that have not terminated, by name. Raises LiveError."""
    return _pods(kubectl.list_all("pods", selector=f"app={settings.server.name}", seconds=READ_SECONDS))


def read(kubectl: Kubectl, settings: Settings) -> Cluster:
    """Pods, nodes and gateway objects. Raises LiveError if the pods cannot be read."""
    selectors = {"nodes": f"cloud.google.com/gke-accelerator={settings.machine.accelerator}"}
    if settings.has_router:
        selectors["routers"] = f"app={ROUTER_APP}"
    objects = _gateways_objects(settings) if settings.gateway.enabled else {}
    troubles: dict[str, str] = {}

    def one(name: str) -> Any:
        try:
            if name == "pods":
                return read_pods(kubectl, settings)
            if name in selectors:
                kind = "nodes" if name == "nodes" else "pods"
                return kubectl.list_all(kind, selector=selectors[name], seconds=READ_SECONDS)
            return _one(kubectl, *objects[name])
        except LiveError as error:
            if name == "pods":
                raise
            troubles[name] = str(error)
            return None

    names = ["pods", *selectors, *objects]
    found = dict(zip(names, side_by_side(one, names, len(names)), strict=True))
    return Cluster(
        pods=found["pods"],
        routers=_pods(found.get("routers") or []),
        nodes=tuple(sorted((_node(one) for one in found["nodes"] or []), key=lambda node: node.name)),
        gateway={name: found[name] for name in objects if name not in troubles},
        troubles=troubles,
    )


def _gateways_objects(settings: Settings) -> dict[str, tuple[str, str]]:
    """Kind and name for kubectl, by the name in the report."""
    gateway = settings.gateway
    found = {f"Gateway {GATEWAY_NAME}": (GATEWAYS, GATEWAY_NAME), f"HTTPRoute {gateway.pool}": (ROUTES, gateway.pool)}
    for pool in settings.shares:
        found |= {
            f"InferencePool {pool}": (POOLS, pool),
            f"Deployment {epp_name(pool)}": (DEPLOYMENTS, epp_name(pool)),
            f"HealthCheckPolicy {pool}": (HEALTH_POLICIES, pool),
            f"GCPBackendPolicy {pool}": (BACKEND_POLICIES, pool),
        }
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnels:
    """Port forwards to pods."""

    urls: Mapping[str, str] = field(default_factory=dict)
    """By the pod's name."""
    troubles: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def tunnels(kubectl: Kubectl, pods: tuple[str, ...], port: int = HTTP_PORT) -> Iterator[Tunnels]:
    """Port forwards to that port of all pods, opened and closed in parallel."""
    # One context per tunnel, entered and left in a thread: closing a dozen in sequence takes seconds.
    contexts = {name: kubectl.port_forward(f"pod/{name}", port) for name in pods}
    urls: dict[str, str] = {}
    troubles: dict[str, str] = {}
    with ThreadPoolExecutor(max_workers=AT_ONCE) as threads:
        try:
            opened = {name: threads.submit(context.__enter__) for name, context in contexts.items()}
            for name, one in opened.items():
                try:
                    urls[name] = f"http://127.0.0.1:{one.result()}"
                except LiveError as error:
                    troubles[name] = str(error)
            yield Tunnels(urls=urls, troubles=troubles)
        finally:
            # Failed tunnels are closed already.
            for closed in [threads.submit(contexts[name].__exit__, None, None, None) for name in urls]:
                closed.result()


def _one(kubectl: Kubectl, kind: str, name: str) -> Any:
    try:
        return kubectl.get(kind, name, seconds=READ_SECONDS)
    except LiveError as error:
        if error.reason == "not found" or _UNKNOWN_KIND in str(error):
            return {}
        raise


def _pods(manifests: Iterable[Mapping[str, Any]]) -> tuple[Pod, ...]:
    """Those that have not terminated, by name."""
    return tuple(sorted((_pod(one) for one in manifests if not _has_ended(one)), key=lambda pod: pod.name))


def _has_ended(manifest: Mapping[str, Any]) -> bool:
    """Whether the pod has terminated: evicted, or its Spot node was preempted; another pod replaces it.

    Source: Kubernetes docs, "Pod Lifecycle": a pod in phase Failed or Succeeded remains as an object until deleted.
    """
    return (manifest.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _pod(manifest: Mapping[str, Any]) -> Pod:
    metadata, spec, status = manifest.get("metadata", {}), manifest.get("spec", {}), manifest.get("status", {})
    container: Mapping[str, Any] = next((one for one in spec.get("containers", []) if one.get("name") == CONTAINER), {})
    ready: Mapping[str, Any] = next(
        (condition for condition in status.get("conditions", []) if condition.get("type") == "Ready"), {}
    )
    return Pod(
        name=str(metadata.get("name", "")),
        node=str(spec.get("nodeName") or ""),
        ready=ready.get("status") == "True",
        going="deletionTimestamp" in metadata,
        why_not_ready=_why_not_ready(status, ready),
        image=str(container.get("image", "")),
        args=tuple(str(argument) for argument in container.get("args", [])),
        # The API server omits empty values. With duplicate names, the last one counts, as in the kubelet.
        env={
            str(one.get("name", "")): None if "valueFrom" in one else str(one.get("value", ""))
            for one in container.get("env", [])
        },
    )


def _why_not_ready(status: Mapping[str, Any], ready: Mapping[str, Any]) -> str:
    # Init containers first: until they end, the others report only PodInitializing.
    for container in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        if container.get("ready"):
            continue
        for state in container.get("state", {}).values():
            if isinstance(state, Mapping) and state.get("reason"):
                restarts = container.get("restartCount", 0)
                before = ((container.get("lastState") or {}).get("terminated") or {}).get("reason", "")
                words = [str(state["reason"])] + ([f"{restarts} restarts"] if restarts else [])
                return ", ".join(words + ([f"the previous container ended with {before}"] if before else []))
    scheduled: Mapping[str, Any] = next(
        (condition for condition in status.get("conditions", []) if condition.get("type") == "PodScheduled"), {}
    )
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "not scheduled")[:200]
    return str(ready.get("reason") or status.get("phase") or "not ready")


def _node(manifest: Mapping[str, Any]) -> Node:
    metadata = manifest.get("metadata", {})
    labels = {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
    return Node(name=str(metadata.get("name", "")), labels=labels)
