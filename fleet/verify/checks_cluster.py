"""Checks of replicas, node capacity and gateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from facts.names import epp_name
from facts.texts import plural
from fleet.verify.facts import Cluster, Facts, Node
from fleet.verify.findings import Check, difference, judged, not_checked
from settings.sections.capacity import Ladder

if TYPE_CHECKING:
    from facts.finding import Finding
    from settings.stack import Settings

GATEWAY_API_SERVICE: Final = "networkservices.googleapis.com"
"""Source: the article, "ClusterIP vs Inference Gateway"; Inference Gateway guide v1.4.0."""
_GKE: Final = "cloud.google.com"
_HEALTHY: Final = "networking.gke.io/GatewayHealthy"
"""GKE's condition: False, with a reason, if the programmed state is out of date. Source: `kubectl describe gateway` of GKE 1.30 to 1.34."""
_PARENT_CONDITIONS: Final = ("Accepted", "ResolvedRefs")
_RECONCILED: Final = "Reconciled"
"""GKE's condition: False, with a reason, if an accepted route could not be programmed.
Source: gateway-api-inference-extension, issue 846."""
_SPOT_LABELS: Final = ((f"{_GKE}/gke-spot", "true"), (f"{_GKE}/gke-provisioning", "spot"))


def replicas(facts: Facts, settings: Settings) -> Check:
    """Ready pods against declared replicas."""
    title = "Replicas"
    if facts.cluster is None:
        return not_checked("replicas", title, facts.cluster_trouble)
    pods = [pod for pod in facts.cluster.pods if not pod.going]
    ready = [pod for pod in pods if pod.ready]
    wanted = settings.server.fixed_replicas
    differences = [difference(pod.name, "pod", "ready", pod.why_not_ready) for pod in pods if not pod.ready]
    if wanted == "external":
        if not pods:
            return not_checked("replicas", title, "replicas are managed externally, and there is no pod")
        scaling = settings.server.scaling
        owner = f"{scaling.min} to {scaling.max}, by the autoscaler" if settings.is_scaled else "replicas: external"
        held = f"{plural(len(ready), 'replica')} ready; managed externally ({owner})"
        return judged("replicas", title, differences, held=held)
    if len(ready) != wanted:
        differences.insert(
            0,
            difference(settings.server.name, "replicas", str(wanted), f"{len(ready)} ready"),
        )
    held = f"{len(ready)} of {wanted} ready" if wanted else "paused: none declared, none running"
    return judged("replicas", title, differences, held=held, failed="the pods differ from the stack file")


def capacity(facts: Facts, settings: Settings) -> Check:
    """The pods' nodes against the declared capacity."""
    title = "Node provisioning"
    cluster = facts.cluster
    if cluster is None:
        return not_checked("capacity", title, facts.cluster_trouble)
    if "nodes" in cluster.troubles:
        return not_checked("capacity", title, cluster.troubles["nodes"])
    taken = _nodes_of_pods(cluster)
    if not taken:
        return not_checked("capacity", title, "no pod has a node")
    nodes, machine = {node.name: node for node in cluster.nodes}, settings.machine
    unknown = sorted(taken - nodes.keys())
    differences = [
        difference(
            name,
            "node",
            f"a {machine.type} node",
            f"none of the {machine.gpu.name} nodes listed",
        )
        for name in unknown
    ]
    used = [nodes[name] for name in sorted(taken & nodes.keys())]
    for node in used:
        differences += _misplaced(node, settings)
    bought = sorted({_format_bought(node) for node in used})
    held = f"{plural(len(used), 'node')}: {', '.join(bought)}"
    if idle := len(nodes) - len(used):
        held += f"; {plural(idle, f'further {machine.gpu.name} node')} in the cluster without a pod of this stack"
    failed = f"the nodes do not match capacity.mode {settings.capacity.mode}"
    return judged("capacity", title, differences, held=held, failed=failed)


def _nodes_of_pods(cluster: Cluster) -> set[str]:
    """Without terminating pods: a preempted node disappears before its pod."""
    return {pod.node for pod in cluster.pods if pod.node and not pod.going}


def _misplaced(node: Node, settings: Settings) -> Iterator[Finding]:
    for key, value in settings.placement.node_selector.items():
        if node.labels.get(key) != value:
            yield difference(node.name, key, value, node.labels.get(key, "no such label"))
    spot_is_fine = settings.capacity.mode == "spot" or (
        isinstance(settings.capacity, Ladder) and settings.capacity.spot
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
    provisioning = labels.get(f"{_GKE}/gke-provisioning", "")
    if labels.get(f"{_GKE}/gke-flex-start") == "true" or provisioning == "flex-start":
        return "flex-start"
    return provisioning or "no provisioning label"


def gateway(facts: Facts, settings: Settings) -> Check | None:
    """Gateway programmed, route accepted with the declared shares; every pool present, with its picker and both policies. Empty without
    a gateway.
    """
    if not settings.gateway.enabled:
        return None
    title = "Gateway programmed"
    cluster = facts.cluster
    if cluster is None:
        return not_checked("gateway", title, facts.cluster_trouble)
    troubles = [trouble for what, trouble in cluster.troubles.items() if what != "nodes"]
    name, shares, backends = settings.gateway.name, settings.shares, cluster.backends.items()
    route = f"HTTPRoute {settings.gateway.pool}"
    unprogrammed = list(_gateway_oddities(cluster.gateway, name))
    closed = [
        *unprogrammed,
        *_parents_oddities(cluster.route, route, needs_parents=True),
    ]
    unpicked = [
        oddity
        for pool, backend in backends
        for oddity in (
            *_parents_oddities(backend.pool, f"InferencePool {pool}", needs_parents=False),
            *_picker_oddities(backend.picker, f"Deployment {epp_name(pool)}"),
        )
    ]
    unequal = list(_share_oddities(cluster.route, route, shares))
    policies = [(pool, backend.health_policy, backend.backend_policy) for pool, backend in backends]
    unhealthy = [one for pool, policy, _ in policies for one in _policy_oddities(policy, f"HealthCheckPolicy {pool}")]
    short = [one for pool, _, policy in policies for one in _policy_oddities(policy, f"GCPBackendPolicy {pool}")]
    differences = [*closed, *unpicked, *unequal, *unhealthy, *short]
    if troubles and not differences:
        return not_checked("gateway", title, "; ".join(troubles))
    addresses = _addresses(cluster.gateway)
    pools = " and ".join(f"{pool} ({share} %)" if len(shares) > 1 else pool for pool, share in shares.items())
    failed = []
    if closed:
        failed.append("the load balancer serves no requests")
    if unprogrammed:
        failed.append(
            f"it gives no reason if {GATEWAY_API_SERVICE} is not enabled or the network has no proxy-only subnet"
        )
    if unpicked:
        failed.append("a request for a pool without its picker gets no answer")
    if unequal:
        failed.append("users reach other servers than declared")
    if unhealthy:
        failed.append(
            "without its HealthCheckPolicy the load balancer checks /, gets 404 and answers `no healthy upstream`"
        )
    if short:
        failed.append("without its GCPBackendPolicy the load balancer cuts streams after 30 s")
    return judged(
        "gateway",
        title,
        differences,
        held=f"{name} at {', '.join(addresses)}, route accepted; pool {pools}: accepted, picker ready, both policies attached",
        failed="; ".join(failed),
    )


def _gateway_oddities(gateway_: Mapping[str, Any] | None, name: str) -> Iterator[Finding]:
    where = f"Gateway {name}"
    if gateway_ is None:
        return
    if not gateway_:
        yield difference(where, "object", "there", "not found")
        return
    status = gateway_.get("status") or {}
    yield from _conditions(where, status.get("conditions"), must=("Programmed",), may=("Accepted", _HEALTHY))
    for listener in status.get("listeners") or ():
        # A listener's conditions: attached, programmed, no conflict.
        yield from _conditions(
            f"{where}, listener {listener.get('name', '')}",
            listener.get("conditions"),
            must=("Programmed",),
            may=("Accepted", "ResolvedRefs"),
        )
    if not _addresses(gateway_):
        yield difference(where, "address", "one", "none")


def _parents_oddities(object_: Mapping[str, Any] | None, where: str, *, needs_parents: bool) -> Iterator[Finding]:
    if object_ is None:
        return
    if not object_:
        yield difference(where, "object", "there", "not found")
        return
    parents = (object_.get("status") or {}).get("parents") or ()
    if not parents and needs_parents:
        yield difference(where, "parents", "the Gateway", "not accepted by a controller")
    for parent in parents:
        must = _PARENT_CONDITIONS if needs_parents else ()
        yield from _conditions(where, parent.get("conditions"), must=must, may=(*_PARENT_CONDITIONS, _RECONCILED))


def _picker_oddities(deployment: Mapping[str, Any] | None, where: str) -> Iterator[Finding]:
    """A picker answers with one pod: further ones stand by, and are not ready."""
    if deployment is None:
        return
    if not deployment:
        yield difference(where, "object", "there", "not found")
    elif not (deployment.get("status") or {}).get("readyReplicas"):
        yield difference(where, "ready pods", "1", "none")


def _share_oddities(route: Mapping[str, Any] | None, where: str, declared: Mapping[str, int]) -> Iterator[Finding]:
    if not route:
        return
    for rule in (route.get("spec") or {}).get("rules") or ():
        # The API's default is 1.
        weights = {str(one.get("name")): int(one.get("weight", 1)) for one in rule.get("backendRefs") or ()}
        every = sum(weights.values())
        shares = {pool: round(100 * weight / every) if every else 0 for pool, weight in weights.items()}
        for pool in {**declared, **shares}:
            if shares.get(pool, 0) != declared.get(pool, 0):
                yield difference(where, f"share of {pool}", f"{declared.get(pool, 0)} %", f"{shares.get(pool, 0)} %")


def _policy_oddities(object_: Mapping[str, Any] | None, where: str) -> Iterator[Finding]:
    if object_ is None:
        return
    if not object_:
        yield difference(where, "object", "there", "not found")
        return
    status = object_.get("status") or {}
    # The API allows one list, or one per Gateway.
    told = [status, *(ancestor for ancestor in status.get("ancestors") or () if isinstance(ancestor, Mapping))]
    for one in told:
        yield from _conditions(where, one.get("conditions"), must=(), may=("Attached",))


def _conditions(where: str, given: Any, *, must: tuple[str, ...], may: tuple[str, ...]) -> Iterator[Finding]:
    """Failed conditions: those in `must` if not True, missing or unknown; those in `may` if False."""
    found = {str(one.get("type")): one for one in given or () if isinstance(one, Mapping)}
    for type_ in must:
        condition = found.get(type_)
        if condition is None or condition.get("status") != "True":
            yield difference(where, type_, "True", _format_condition(condition))
    for type_ in may:
        condition = found.get(type_)
        if type_ not in must and condition is not None and condition.get("status") == "False":
            yield difference(where, type_, "True", _format_condition(condition))


def _format_condition(condition: Mapping[str, Any] | None) -> str:
    if condition is None:
        return "not there"
    words = [str(condition.get("status")), str(condition.get("reason") or ""), str(condition.get("message") or "")]
    return ": ".join(word for word in words if word)[:200]


def _addresses(gateway_: Mapping[str, Any] | None) -> list[str]:
    status = (gateway_ or {}).get("status") or {}
    return [str(address.get("value")) for address in status.get("addresses") or () if address.get("value")]
