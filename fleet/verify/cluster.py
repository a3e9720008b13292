"""Reads a stack's objects with kubectl. A kind that cannot be read is reported; the others are still read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from facts.names import HTTP_PORT, ROUTER_APP, epp_name
from fleet.clients.errors import LiveError
from fleet.clients.side_by_side import side_by_side
from fleet.verify.facts import Backend, Cluster, Node, Pod, RouterPod

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
LOG_BYTES: Final = 2_000_000
"""Bytes read from the start of a pod's log. Assumed: ten times the start of eight engines."""
READ_SECONDS: Final = 8.0
"""Timeout for one object or list; kubectl gets 15 s more for credentials."""
_KV_LINE: Final = re.compile(r"GPU KV cache size: ([\d,]+) tokens")
"""Source: vLLM 0.18.1, v1/core/kv_cache_utils.py."""
_PARTS: Final = ("pool", "picker", "health_policy", "backend_policy")
"""Of a release behind the gateway: the fields of `Backend`."""
_UNKNOWN_KIND: Final = "doesn't have a resource type"
"""kubectl's message for a missing custom resource. Source: kubectl 1.32."""


def read_pods(kubectl: Kubectl, settings: Settings) -> tuple[Pod, ...]:
    """The server's pods that have not terminated, by name. Raises LiveError."""
    found = kubectl.list_all("pods", selector=f"app={settings.server.name}", seconds=READ_SECONDS)
    return tuple(sorted((_pod(one) for one in found if not _has_ended(one)), key=lambda pod: pod.name))


def read(kubectl: Kubectl, settings: Settings) -> Cluster:
    """Pods, nodes and gateway objects. Raises LiveError if the pods cannot be read."""
    gateway, pools = settings.gateway, settings.shares
    reads: dict[str, Callable[[], Any]] = {
        "pods": lambda: read_pods(kubectl, settings),
        "nodes": lambda: kubectl.list_all(
            "nodes", selector=f"cloud.google.com/gke-accelerator={settings.machine.accelerator}", seconds=READ_SECONDS
        ),
    }
    if settings.has_router:
        reads["routers"] = lambda: kubectl.list_all("pods", selector=f"app={ROUTER_APP}", seconds=READ_SECONDS)
    if gateway.enabled:
        reads |= {
            "gateway": lambda: _one(kubectl, GATEWAYS, gateway.name),
            "route": lambda: _one(kubectl, ROUTES, gateway.pool),
        }
        for pool in pools:
            named = (POOLS, pool), (DEPLOYMENTS, epp_name(pool)), (HEALTH_POLICIES, pool), (BACKEND_POLICIES, pool)
            for part, (kind, name) in zip(_PARTS, named, strict=True):
                reads[f"{part} {pool}"] = partial(_one, kubectl, kind, name)
    found: dict[str, Any] = {}
    troubles: dict[str, str] = {}

    def one(name: str) -> Any:
        try:
            return reads[name]()
        except LiveError as error:
            if name == "pods":
                raise
            troubles[name] = str(error)
            return None

    for name, value in zip(reads, side_by_side(one, list(reads), len(reads)), strict=True):
        if name not in troubles:
            found[name] = value
    return Cluster(
        pods=found["pods"],
        routers=_routers(found.get("routers", [])),
        nodes=tuple(sorted((_node(one) for one in found.get("nodes", [])), key=lambda node: node.name)),
        gateway=found.get("gateway"),
        route=found.get("route"),
        backends={pool: Backend(**{part: found.get(f"{part} {pool}") for part in _PARTS}) for pool in pools},
        troubles=troubles,
    )


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


def logged_kv_tokens(kubectl: Kubectl, pods: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Cache sizes from each pod's log; empty if the log was rotated or cannot be read."""

    def of(pod: str) -> tuple[int, ...]:
        arguments = ("logs", pod, f"--container={CONTAINER}", f"--limit-bytes={LOG_BYTES}")
        try:
            text = kubectl.run(*arguments, what=f"reading the log of {pod}", seconds=READ_SECONDS)
        except LiveError:
            return ()
        return tuple(int(found.replace(",", "")) for found in _KV_LINE.findall(text))

    return dict(zip(pods, side_by_side(of, pods, AT_ONCE), strict=True))


def _one(kubectl: Kubectl, kind: str, name: str) -> Any:
    try:
        return kubectl.get(kind, name, seconds=READ_SECONDS)
    except LiveError as error:
        if error.reason == "not found" or _UNKNOWN_KIND in str(error):
            return {}
        raise


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


def _routers(manifests: Iterable[Mapping[str, Any]]) -> tuple[RouterPod, ...]:
    """Those that are not ending, by name."""
    found = []
    for manifest in manifests:
        pod = _pod(manifest)
        if not (pod.going or _has_ended(manifest)):
            grace = int(manifest.get("spec", {}).get("terminationGracePeriodSeconds") or 0)
            found.append(
                RouterPod(name=pod.name, ready=pod.ready, why_not_ready=pod.why_not_ready, grace_seconds=grace)
            )
    return tuple(sorted(found, key=lambda router: router.name))


def _node(manifest: Mapping[str, Any]) -> Node:
    metadata = manifest.get("metadata", {})
    labels = {str(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
    return Node(name=str(metadata.get("name", "")), labels=labels)
