"""Checks of replicas, routers, node capacity and gateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from facts.texts import plural
from fleet.verify.facts import Cluster, Facts, Node, Pod, the_cluster
from fleet.verify.findings import Part, Seen, Unseen, check, difference
from settings.sections.capacity import ComputeClassMode

if TYPE_CHECKING:
    from settings.stack import Settings

_GKE: Final = "cloud.google.com"
_SPOT_LABELS: Final = ((f"{_GKE}/gke-spot", "true"), (f"{_GKE}/gke-provisioning", "spot"))
_MUST_BE_TRUE: Final = {"Gateway": ("Programmed",), "HTTPRoute": ("Accepted", "ResolvedRefs")}
"""Conditions that a controller writes before the object works."""
_MUST_NOT_BE_FALSE: Final = (
    "Accepted",
    "Programmed",
    "ResolvedRefs",
    "Attached",  # of GKE's policies
    "Reconciled",  # of GKE: an accepted route that could not be programmed. Source: gateway-api-inference-extension, issue 846
    "networking.gke.io/GatewayHealthy",  # Source: `kubectl describe gateway` of GKE 1.30 to 1.34
)


@check(
    "replicas",
    "Replicas",
    "fewer or more pods serve than the stack file declares; `kubectl describe pod` shows what one waits for",
    needs=the_cluster,
)
def replicas(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Ready pods against declared replicas."""
    assert facts.cluster is not None
    pods = [pod for pod in facts.cluster.pods if not pod.going]
    wanted = settings.server.fixed_replicas
    if wanted == "external" and not pods:
        yield Unseen("replicas are managed externally, and there is no pod")
    yield from _ready(settings.server.name, pods, None if wanted == "external" else wanted)


@check(
    "routers",
    "Routers",
    "fewer or more routers are ready than the stack file declares; `kubectl describe pod` shows what one waits for",
    needs=the_cluster,
    applies=lambda settings: settings.has_router,
)
def routers(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Ready routers against declared ones."""
    assert facts.cluster is not None
    if "routers" in facts.cluster.troubles:
        yield Unseen(facts.cluster.troubles["routers"])
        return
    pods = [pod for pod in facts.cluster.routers if not pod.going]
    yield from _ready("router", pods, settings.endpoint.router.replicas)


def _ready(where: str, pods: Sequence[Pod], wanted: int | None) -> Iterator[Part]:
    ready = sum(pod.ready for pod in pods)
    if wanted is not None and ready != wanted:
        yield difference(where, "replicas", str(wanted), f"{ready} ready")
    for pod in pods:
        if not pod.ready:
            yield difference(pod.name, "pod", "ready", pod.why_not_ready)
    yield Seen(
        f"{ready} ready" + (", managed externally" if wanted is None else "" if wanted else "; the stack is paused")
    )


@check(
    "capacity",
    "Node provisioning",
    "the pods' nodes are not bought as capacity.mode says, or not the declared machine and zone",
    needs=the_cluster,
)
def capacity(facts: Facts, settings: Settings) -> Iterator[Part]:
    """The pods' nodes against the declared capacity."""
    cluster = facts.cluster
    assert cluster is not None
    taken = _nodes_of_pods(cluster)
    if "nodes" in cluster.troubles or not taken:
        yield Unseen(cluster.troubles.get("nodes", "no pod has a node"))
        return
    nodes, machine = {node.name: node for node in cluster.nodes}, settings.machine
    for name in sorted(taken - nodes.keys()):
        yield difference(name, "node", f"a {machine.type} node", f"none of the {machine.gpu.name} nodes listed")
    used = [nodes[name] for name in sorted(taken & nodes.keys())]
    for node in used:
        yield from _misplaced(node, settings)
    yield Seen(f"{plural(len(used), 'node')}: {', '.join(sorted({_format_bought(node) for node in used}))}")
    if idle := len(nodes) - len(used):
        yield Seen(f"{plural(idle, f'further {machine.gpu.name} node')} in the cluster without a pod of this stack")


def _nodes_of_pods(cluster: Cluster) -> set[str]:
    """Without terminating pods: a preempted node disappears before its pod."""
    return {pod.node for pod in cluster.pods if pod.node and not pod.going}


def _misplaced(node: Node, settings: Settings) -> Iterator[Part]:
    for key, value in settings.placement.node_selector.items():
        if node.labels.get(key) != value:
            yield difference(node.name, key, value, node.labels.get(key, "no such label"))
    spot_is_fine = settings.capacity.mode == "spot" or (
        isinstance(settings.capacity, ComputeClassMode) and settings.capacity.spot
    )
    if not spot_is_fine:
        for key, value in _SPOT_LABELS:
            if node.labels.get(key) == value:
                yield difference(node.name, key, "not Spot", value)
    machine, zone = (
        node.labels.get(key) for key in ("node.kubernetes.io/instance-type", "topology.kubernetes.io/zone")
    )
    if machine is not None and machine != settings.machine.type:
        yield difference(node.name, "machine", settings.machine.type, machine)
    if zone is not None and zone not in settings.zones:
        yield difference(node.name, "zone", ", ".join(settings.zones), zone)


def _format_bought(node: Node) -> str:
    labels = node.labels
    if any(labels.get(key) == value for key, value in _SPOT_LABELS):
        return "Spot"
    if name := labels.get(f"{_GKE}/reservation-name"):
        return f"reservation {name}"
    return (
        "flex-start"
        if labels.get(f"{_GKE}/gke-flex-start") == "true"
        else labels.get(f"{_GKE}/gke-provisioning", "no provisioning label")
    )


@check(
    "gateway",
    "Gateway programmed",
    "the load balancer serves nothing, or not with the declared picker, timeouts and shares. It gives no reason if "
    "networkservices.googleapis.com is off or the network has no proxy-only subnet: `fleet doctor --for up --live` looks",
    needs=the_cluster,
    applies=lambda settings: settings.gateway.enabled,
)
def gateway(facts: Facts, settings: Settings) -> Iterator[Part]:
    """Gateway programmed, route accepted with the declared shares; every pool present, with its picker and both policies."""
    assert facts.cluster is not None
    for where, manifest in facts.cluster.gateway.items():
        kind, status = where.partition(" ")[0], manifest.get("status") or {}
        if not manifest:
            yield difference(where, "object", "there", "not found")
        elif kind == "Deployment" and not status.get("readyReplicas"):
            # A picker answers with one pod: further ones stand by, and are not ready.
            yield difference(where, "ready pods", "1", "none")
        else:
            yield from _untrue(where, _MUST_BE_TRUE.get(kind, ()), _conditions(status))
        if kind == "HTTPRoute":
            yield from _shares(where, manifest, settings.shares)
    for what, trouble in facts.cluster.troubles.items():
        if what not in ("nodes", "routers"):
            yield Unseen(trouble)
    yield Seen(" and ".join(f"{pool} ({share} %)" for pool, share in settings.shares.items()))


def _conditions(status: Any) -> Iterator[Mapping[str, Any]]:
    """All conditions of a status: its own, and those of its listeners, parents and ancestors."""
    for key, value in status.items() if isinstance(status, Mapping) else ():
        for one in value if isinstance(value, list) else ():
            if key == "conditions" and isinstance(one, Mapping):
                yield one
            else:
                yield from _conditions(one)


def _untrue(where: str, must: tuple[str, ...], conditions: Iterator[Mapping[str, Any]]) -> Iterator[Part]:
    missing = set(must)
    for one in conditions:
        type_, status = str(one.get("type")), one.get("status")
        missing.discard(type_)
        if (type_ in must and status != "True") or (type_ in _MUST_NOT_BE_FALSE and status == "False"):
            words = [str(status), str(one.get("reason") or ""), str(one.get("message") or "")]
            yield difference(where, type_, "True", ": ".join(filter(None, words))[:200])
    for type_ in sorted(missing):
        yield difference(where, type_, "True", "not there")


def _shares(where: str, route: Mapping[str, Any], declared: Mapping[str, int]) -> Iterator[Part]:
    for rule in (route.get("spec") or {}).get("rules") or ():
        # The API's default is 1.
        weights = {str(one.get("name")): int(one.get("weight", 1)) for one in rule.get("backendRefs") or ()}
        every = sum(weights.values())
        shares = {pool: round(100 * weight / every) if every else 0 for pool, weight in weights.items()}
        for pool in {**declared, **shares}:
            if shares.get(pool, 0) != declared.get(pool, 0):
                yield difference(where, f"share of {pool}", f"{declared.get(pool, 0)} %", f"{shares.get(pool, 0)} %")
