"""Gateways, routes, pools with their endpoint pickers, Services and GKE policies in front of model servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import money
from facts.quantities import quantity
from objects import all_pods, by_key, namespace_of, number, of_kind, own_name, selects
from pods import Pod, Server, servers
from rule import Resource, dig, listed, mapped
from tokens import GATEWAY_API, GKE_API, PICKER_CHART, RELEASE, ROUTES

CHART_EPP_CPU: Final = 4.0
"""The picker's default CPU. Source: chart inferencepool v1.4.0, values.yaml; the article's v1.0.1 requested 500m and crashed."""


@dataclass(frozen=True)
class Picker:
    """The endpoint picker of a pool."""

    resource: Resource
    path: str
    """Path of its resources, for messages."""
    cpu: float | None
    replicas: int


@dataclass(frozen=True)
class Backend:
    """Target of a route."""

    kind: str
    """`InferencePool` or `Service`."""
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Pool:
    """A pool of model servers: an InferencePool object, or its chart."""

    resource: Resource
    backend: Backend
    selector: Mapping[str, Any]
    picker: Picker | None
    brings_policies: bool
    """Whether the chart creates GKE's policies for the pool."""


@dataclass(frozen=True)
class GatewayObject:
    """A Gateway."""

    resource: Resource

    @property
    def class_name(self) -> str:
        """Its GatewayClass."""
        return str(dig(self.resource.props, "spec", "gatewayClassName") or "")

    @property
    def is_gke(self) -> bool:
        """Whether GKE creates a Google Cloud load balancer for it."""
        return self.class_name.startswith("gke-l7-")

    @property
    def is_regional(self) -> bool:
        """Whether its proxies use a regional proxy-only subnet."""
        return (
            self.is_gke
            and ("regional" in self.class_name or self.class_name.startswith("gke-l7-rilb"))
            and ("cross-regional" not in self.class_name)
        )

    @property
    def is_public(self) -> bool:
        """Whether its address is on the internet."""
        return self.is_gke and ("external" in self.class_name or self.class_name.startswith("gke-l7-gxlb"))

    @property
    def listeners(self) -> tuple[Any, ...]:
        """Its listeners."""
        return tuple(listed(dig(self.resource.props, "spec", "listeners")))


@dataclass(frozen=True)
class Route:
    """A route, and the gateways of this stack that it is attached to."""

    resource: Resource
    gateways: tuple[GatewayObject, ...]
    rules: tuple[Any, ...]
    backends: tuple[Backend, ...]
    sections: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """URN of a gateway, and the listeners that it is attached to; without an entry, to each."""

    def listeners(self, gateway: GatewayObject) -> tuple[Any, ...]:
        """The listeners of the gateway that it is attached to."""
        names = self.sections.get(gateway.resource.urn)
        return tuple(one for one in gateway.listeners if names is None or dig(one, "name") in names)

    @property
    def paths(self) -> tuple[str, ...]:
        """Path prefixes that it matches; "/" where a rule has none."""
        found = []
        for rule in self.rules:
            matches = tuple(listed(dig(rule, "matches")))
            found += [str(dig(match, "path", "value") or "/") for match in matches] or ["/"]
        return tuple(found) or ("/",)


def gateways(resources: Sequence[Resource]) -> tuple[GatewayObject, ...]:
    """The Gateways of the stack."""
    return tuple(GatewayObject(resource) for resource in of_kind(resources, "Gateway", GATEWAY_API))


def routes(resources: Sequence[Resource]) -> Iterator[Route]:
    """The routes of the stack, including those of the pool's chart."""
    known = {(namespace_of(gateway.resource), own_name(gateway.resource)): gateway for gateway in gateways(resources)}
    for resource in resources:
        if resource.kind in ROUTES and resource.type.startswith(f"kubernetes:{GATEWAY_API}/"):
            space = namespace_of(resource)
            rules = tuple(listed(dig(resource.props, "spec", "rules")))
            parents = [
                (known[key], dig(parent, "sectionName"))
                for parent in listed(dig(resource.props, "spec", "parentRefs"))
                if (key := (str(dig(parent, "namespace") or space), str(dig(parent, "name")))) in known
            ]
            attached: dict[str, set[str] | None] = {}
            for gateway, section in parents:
                others = attached.get(gateway.resource.urn, set())
                attached[gateway.resource.urn] = None if section is None or others is None else {*others, str(section)}
            yield Route(
                resource=resource,
                gateways=tuple({gateway.resource.urn: gateway for gateway, _ in parents}.values()),
                sections={urn: frozenset(names) for urn, names in attached.items() if names is not None},
                rules=rules,
                backends=tuple(
                    Backend(
                        kind=str(dig(reference, "kind") or "Service"),
                        namespace=str(dig(reference, "namespace") or space),
                        name=str(dig(reference, "name")),
                    )
                    for rule in rules
                    for reference in listed(dig(rule, "backendRefs"))
                ),
            )
    for pool in pools(resources):
        values = dig(pool.resource.props, "values")
        if pool.resource.type == RELEASE and dig(values, "experimentalHttpRoute", "enabled") is True:
            name = str(dig(values, "experimentalHttpRoute", "inferenceGatewayName") or "inference-gateway")
            hung = known.get((pool.backend.namespace, name))
            yield Route(pool.resource, (hung,) if hung else (), (), (pool.backend,))


def pools(resources: Sequence[Resource]) -> tuple[Pool, ...]:
    """The pools of the stack."""
    return (*_chart_pools(resources), *_plain_pools(resources))


def _chart_pools(resources: Sequence[Resource]) -> Iterator[Pool]:
    for resource in resources:
        if resource.type != RELEASE or str(dig(resource.props, "chart") or "").rpartition("/")[2] != PICKER_CHART:
            continue
        values = mapped(dig(resource.props, "values"))
        epp = mapped(dig(values, "inferenceExtension"))
        cpu = quantity(dig(epp, "resources", "requests", "cpu")) or quantity(dig(epp, "resources", "limits", "cpu"))
        yield Pool(
            resource=resource,
            backend=Backend(
                "InferencePool", str(dig(resource.props, "namespace") or "default"), _release_name(resource)
            ),
            selector=mapped(dig(values, "inferencePool", "modelServers", "matchLabels")),
            picker=Picker(
                resource,
                "values.inferenceExtension",
                CHART_EPP_CPU if cpu is None else cpu,
                int(number(dig(epp, "replicas")) or 1),
            ),
            brings_policies=dig(values, "provider", "name") == "gke",
        )


def _release_name(release: Resource) -> str:
    return str(dig(release.props, "name") or release.name)


def _plain_pools(resources: Sequence[Resource]) -> Iterator[Pool]:
    for resource in of_kind(resources, "InferencePool"):
        name = own_name(resource)
        yield Pool(
            resource=resource,
            backend=Backend("InferencePool", namespace_of(resource), name),
            selector=mapped(dig(resource.props, "spec", "selector")),
            picker=next(_pickers(resources, namespace_of(resource), name), None),
            brings_policies=False,
        )


def _pickers(resources: Sequence[Resource], namespace: str, pool: str) -> Iterator[Picker]:
    for pod in all_pods(resources):
        for container in pod.containers:
            words = [word.lstrip("-") for word in container.words]
            follows = "pool-name" in words and pool in words[words.index("pool-name") + 1 :][:1]
            if pod.namespace == namespace and (follows or f"pool-name={pool}" in words):
                yield Picker(pod.resource, f"{container.path}.resources", container.requested("cpu"), pod.replicas)


def pods_behind(resources: Sequence[Resource], namespace: str, selector: Mapping[str, Any]) -> Iterator[Pod]:
    """The pods of this stack that a pool or a Service selects."""
    for pod in all_pods(resources):
        if selector and pod.namespace == namespace and selects(selector, pod.labels):
            yield pod


def servers_behind(resources: Sequence[Resource], backend: Backend) -> tuple[Server, ...]:
    """The vLLM servers of this stack behind a backend."""
    selector: Any = None
    if backend.kind == "Service":
        service = by_key(resources, "Service").get((backend.namespace, backend.name))
        selector = dig(service.props, "spec", "selector") if service is not None else None
    else:
        selector = next((pool.selector for pool in pools(resources) if pool.backend == backend), None)
    found = tuple(pods_behind(resources, backend.namespace, mapped(selector)))
    # Else through routers, to the servers that they choose from.
    return _servers_of(found) or _servers_of(further for pod in found for further in _led_on(resources, pod))


def _servers_of(found: Iterable[Pod]) -> tuple[Server, ...]:
    return tuple(server for pod in found for server in servers(pod.resource) if server.pod is pod)


def _led_on(resources: Sequence[Resource], pod: Pod) -> Iterator[Pod]:
    """The pods that a router sends requests to: those of a Service that a variable names."""
    for container in pod.every_container:
        values = [str(value) for one in listed(dig(container.props, "env")) if (value := dig(one, "value"))]
        for service in of_kind(resources, "Service", "core"):
            name = f"{own_name(service)}.{pod.namespace}.svc"
            if namespace_of(service) == pod.namespace and any(name in value for value in values):
                yield from pods_behind(resources, pod.namespace, mapped(dig(service.props, "spec", "selector")))


def gke_policies(resources: Sequence[Resource], kind: str, target: Backend) -> tuple[Resource, ...]:
    """GKE's policies of a kind (HealthCheckPolicy, GCPBackendPolicy, ...) that target a backend."""
    return tuple(
        resource
        for resource in of_kind(resources, kind, GKE_API)
        if namespace_of(resource) == target.namespace
        and dig(resource.props, "spec", "targetRef", "kind") == target.kind
        and dig(resource.props, "spec", "targetRef", "name") == target.name
    )


def model_backends(resources: Sequence[Resource]) -> dict[Backend, list[Route]]:
    """Model servers behind GKE gateways of this stack, with their routes.

    A pool always counts, a Service where vLLM pods of this stack are behind it. Gateways of other implementations or stacks do
    not count.
    """
    found: dict[Backend, list[Route]] = {}
    for route in routes(resources):
        if not any(gateway.is_gke for gateway in route.gateways):
            continue
        for backend in dict.fromkeys(route.backends):
            if backend.kind == "InferencePool" or servers_behind(resources, backend):
                found.setdefault(backend, []).append(route)
    return found


def stake(found: Sequence[Server]) -> str:
    """Formatted cost of the nodes of these servers."""
    resources = {id(one.pod.resource): one.pod.resource for one in found}
    return "; ".join(text for resource in resources.values() if (text := money.at_stake(resource)))


def has_key(server: Server) -> bool:
    """Whether a vLLM server requires a key: by option, by a variable that cannot be empty, or a wrapper that sets the variable."""
    name = "VLLM_API_KEY"
    given = [one for one in listed(dig(server.container.props, "env")) if dig(one, "name") == name][-1:]
    source = dig(given[0], "valueFrom") if given else None
    optional = any(dig(source, kind, "optional") is True for kind in ("secretKeyRef", "configMapKeyRef"))
    by_variable = given and not optional and (source is not None or bool(dig(given[0], "value")))
    return bool(server.flags.options.get("api-key")) or bool(by_variable) or name in server.container.words


def is_internal(service: Resource) -> bool:
    """Whether a LoadBalancer Service has only an internal address: by its class, else by its annotation."""
    if (chosen := dig(service.props, "spec", "loadBalancerClass")) is not None:
        return str(chosen).endswith("-internal")
    annotations = mapped(dig(service.props, "metadata", "annotations"))
    keys = ("networking.gke.io/load-balancer-type", "cloud.google.com/load-balancer-type")
    return any(str(dig(annotations, key) or "").lower() == "internal" for key in keys)


def public_services(resources: Sequence[Resource]) -> Iterator[Resource]:
    """Services with a load balancer on the internet."""
    for resource in of_kind(resources, "Service", "core"):
        if dig(resource.props, "spec", "type") == "LoadBalancer" and not is_internal(resource):
            yield resource


def public_ingresses(resources: Sequence[Resource]) -> Iterator[tuple[Resource, Backend]]:
    """Ingresses on the internet, each with the Services behind it."""
    for resource in of_kind(resources, "Ingress"):
        chosen = dig(resource.props, "metadata", "annotations", "kubernetes.io/ingress.class")
        if (chosen or dig(resource.props, "spec", "ingressClassName") or "gce") != "gce":
            continue
        backends = [dig(resource.props, "spec", "defaultBackend")]
        for rule in listed(dig(resource.props, "spec", "rules")):
            backends += [dig(path, "backend") for path in listed(dig(rule, "http", "paths"))]
        for name in dict.fromkeys(str(name) for backend in backends if (name := dig(backend, "service", "name"))):
            yield resource, Backend("Service", namespace_of(resource), name)
