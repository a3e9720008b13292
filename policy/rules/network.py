"""Rules for model servers that the internet can reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from facts.finding import Finding
from facts.names import HTTP_PORT, STATUS_PORT
from network_policies import policy_specs
from objects import all_pods, named, namespace_of, number, of_kind, own_name, selects, shown
from pods import Container, Pod
from routing import (
    GKE_API,
    Backend,
    GatewayObject,
    gke_policies,
    has_key,
    public_ingresses,
    public_services,
    routes,
    servers_behind,
    stake,
)
from rule import Resource, Settings, StackRule, dig, finding, has, listed, mapped


def _public(resources: Sequence[Resource]) -> Iterator[tuple[str, Resource, Backend, tuple[str, ...]]]:
    """Routes from the internet to model servers: description, exposing object, backend, paths."""
    for route in routes(resources):
        for gateway in route.gateways:
            if gateway.is_public and not _authorized(resources, gateway):
                for backend in dict.fromkeys(route.backends):
                    yield f"{named(gateway.resource)} ({gateway.class_name})", route.resource, backend, route.paths
    for service in public_services(resources):
        backend = Backend("Service", namespace_of(service), own_name(service))
        yield "its external load balancer", service, backend, ("/",)
    for ingress, backend in public_ingresses(resources):
        paths = [
            str(dig(path, "path") or "/")
            for rule in listed(dig(ingress.props, "spec", "rules"))
            for path in listed(dig(rule, "http", "paths"))
        ]
        yield "an external Ingress", ingress, backend, tuple(paths) or ("/",)


def _authorized(resources: Sequence[Resource], gateway: GatewayObject) -> bool:
    """Whether a GCPAuthzPolicy targets the gateway."""
    return any(
        dig(reference, "name") == own_name(gateway.resource)
        for resource in of_kind(resources, "GCPAuthzPolicy", GKE_API)
        for reference in (dig(resource.props, "spec", "targetRef"), *listed(dig(resource.props, "spec", "targetRefs")))
    )


def _has_iap(resources: Sequence[Resource], backend: Backend) -> bool:
    """Whether Identity-Aware Proxy is on, in a GCPBackendPolicy or in the BackendConfig of a Service."""
    for policy in gke_policies(resources, "GCPBackendPolicy", backend):
        if dig(policy.props, "spec", "default", "iap", "enabled") is True:
            return True
    for service in of_kind(resources, "Service", "core"):
        if backend != Backend("Service", namespace_of(service), own_name(service)):
            continue
        chosen = str(dig(service.props, "metadata", "annotations", "cloud.google.com/backend-config") or "")
        for config in of_kind(resources, "BackendConfig"):
            quoted = f'"{own_name(config)}"' in chosen and namespace_of(config) == backend.namespace
            if quoted and dig(config.props, "spec", "iap", "enabled") is True:
                return True
    return False


def _open(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for how, opener, backend, _paths in _public(resources):
        found = servers_behind(resources, backend)
        without = [one for one in found if not has_key(one)]
        if without and not _has_iap(resources, backend):
            yield finding(
                f"{named(opener)}: {how} publishes {without[0].label}, which has no key and no authentication in front of it",
                urn=opener.urn,
                at_stake=stake(without),
            )


def _unguarded(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for how, opener, backend, paths in _public(resources):
        keyed = [one for one in servers_behind(resources, backend) if has_key(one)]
        wide = [path for path in paths if not _guarded(path)]
        if keyed and wide and not _has_iap(resources, backend):
            yield finding(
                f"{named(opener)}: {how} routes {', '.join(dict.fromkeys(wide))} to {keyed[0].label}",
                urn=opener.urn,
                at_stake=stake(keyed),
            )


def _guarded(path: str) -> bool:
    path = path.lstrip("^")
    return path.rstrip("/*") == "/v1" or path.startswith("/v1/")


def _clear_text(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for route in routes(resources):
        if not any(servers_behind(resources, backend) for backend in route.backends):
            continue
        for gateway in route.gateways:
            plain = [listener for listener in route.listeners(gateway) if dig(listener, "protocol") == "HTTP"]
            if gateway.is_public and plain:
                yield finding(
                    f"{named(gateway.resource)} ({gateway.class_name}): listener {dig(plain[0], 'name')} is HTTP on port "
                    f"{shown(dig(plain[0], 'port'))}, and {named(route.resource)} is attached to it",
                    urn=gateway.resource.urn,
                )
    for service in public_services(resources):
        found = servers_behind(resources, Backend("Service", namespace_of(service), own_name(service)))
        if any("ssl-certfile" not in one.flags for one in found):
            yield finding(
                f"{named(service)}: its external load balancer uses HTTP to {found[0].label}", urn=service.urn
            )


_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_ROUTER: Final = "vllm-router"
_SPLIT: Final = "--vllm-pd-disaggregation"
"""Option of vllm-router in front of prefill and decode."""
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_COLLECTORS: Final = frozenset({"gke-gmp-system", "gmp-system"})
"""Namespaces of GKE's managed collection, in which nobody else runs pods."""


def _is_router(words: Sequence[str]) -> bool:
    return any(word == _ROUTER or word.endswith(f"/{_ROUTER}") for word in words)


def _has_engine(pod: Pod) -> bool:
    return any(container.started is not None for container in pod.containers)


def _option(words: Sequence[str], name: str) -> str:
    """The value of a program's option; empty without it."""
    given = [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]
    given += [after for word, after in pairwise(words) if word == name]
    return given[-1] if given else ""


def _reachable_split(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    """Of pods with engines and the router between them."""
    for pod in all_pods(resources):
        routers = [one for one in pod.every_container if _is_router(one.words) and _SPLIT in one.words]
        if not routers or not _has_engine(pod):
            continue
        for container in pod.containers:
            host = _option(container.words, "--host")
            if container.started is not None and host not in _LOOPBACK:
                yield finding(
                    f"{pod.resource.label}, {container.path}: the engines listen on {host or 'every address'}",
                    urn=pod.resource.urn,
                    write="--host=127.0.0.1",
                )
        opened = any(_option(router.words, "--host") not in _LOOPBACK for router in routers)
        if opened and (why := _who_enters(resources, pod, _ports(routers))):
            yield finding(
                f"{pod.resource.label}, {routers[0].path}: {_ROUTER} is open to {why}",
                urn=pod.resource.urn,
                write="a network policy that lets in pods of this stack alone, and HAProxy in front (endpoint.kind: leastRequest)",
            )


def _ports(routers: Sequence[Container]) -> tuple[int, ...]:
    """The routers' own, and the status port, which passes requests on to them."""
    given = (_option(router.words, "--port") for router in routers)
    return (*(int(port) if port.isdecimal() else HTTP_PORT for port in given), STATUS_PORT)


def _who_enters(resources: Sequence[Resource], pod: Pod, ports: Sequence[int]) -> str:
    """Who but pods of these resources may reach these ports of a pod, for a message; empty if only they may."""
    specs = [
        spec
        for policy in resources
        if policy.is_kubernetes and namespace_of(policy) == pod.namespace
        for _path, spec in policy_specs(policy)
        if selects(mapped(dig(spec, "podSelector")), pod.labels) and _is_of_ingress(spec)
    ]
    if not specs:
        return "every pod, as no network policy selects it"
    mine = [one.labels for one in all_pods(resources) if one.namespace == pod.namespace]
    named_ports = {
        str(dig(port, "name")): dig(port, "containerPort")
        for container in pod.every_container
        for port in listed(dig(container.props, "ports"))
    }
    for entry in (entry for spec in specs for entry in listed(dig(spec, "ingress"))):
        opened = [port for port in ports if _opens(entry, port, named_ports)]
        if not opened:
            continue
        peers = tuple(listed(dig(entry, "from")))
        if not peers:
            return "every address"
        for peer in peers:
            if opened == [STATUS_PORT] and _collects(peer):
                continue
            if has(peer, "ipBlock") or has(peer, "namespaceSelector"):
                return "addresses or namespaces outside this stack's"
            if not any(selects(dig(peer, "podSelector"), labels) for labels in mine):
                labels = mapped(dig(peer, "podSelector", "matchLabels"))
                return f"pods that this stack does not have ({', '.join(f'{key}={labels[key]}' for key in labels) or 'any'})"
    return ""


def _is_of_ingress(spec: Any) -> bool:
    return "Ingress" in (tuple(listed(dig(spec, "policyTypes"))) or ("Ingress",))


def _opens(entry: Any, wanted: int, named_ports: Mapping[str, Any]) -> bool:
    """Whether an ingress entry opens a port: by its number or name, within a range, or as one of all ports."""
    ports = tuple(listed(dig(entry, "ports")))
    return not ports or any(_covers(port, wanted, named_ports) for port in ports)


def _covers(port: Any, wanted: int, named_ports: Mapping[str, Any]) -> bool:
    if not has(port, "port"):
        return True
    given = dig(port, "port")
    first = number(named_ports.get(given) if isinstance(given, str) else given)
    last = number(dig(port, "endPort")) if has(port, "endPort") else first
    return first is not None and last is not None and first <= wanted <= last


def _collects(peer: Any) -> bool:
    """Whether a peer is of the namespaces of GKE's managed collection alone."""
    selector = mapped(dig(peer, "namespaceSelector"))
    exact = dig(selector, "matchLabels", _NAMESPACE_NAME)
    chosen = [exact] if exact is not None else []
    for expression in listed(dig(selector, "matchExpressions")):
        if dig(expression, "key") == _NAMESPACE_NAME and dig(expression, "operator") == "In":
            chosen += listed(dig(expression, "values"))
    return bool(chosen) and _COLLECTORS.issuperset(chosen)


RULES = (
    StackRule(
        name="split-pod-reachable",
        subject="network",
        statement="With prefill apart from decode, only the pod's router reaches its engines, and only pods of this stack reach that.",
        evidence="vllm-router 0.1.17 sends its own key in place of a client's and checks none; /remove_worker takes servers out for "
        "anyone; no cache moves for a client that calls an engine itself; the status port passes /v1 on to the router. Source: the "
        "released wheel, tried on loopback. Mandatory: whoever reaches the router is served without a key",
        fix="--host=127.0.0.1 for the engines, and a network policy for the pods that names this stack's own",
        level="mandatory",
        severity="high",
        judge=_reachable_split,
    ),
    StackRule(
        name="open-to-the-internet",
        subject="network",
        statement="Public model servers require a key, or authentication in front of them.",
        evidence="vLLM has no authentication by default: anyone who finds the address can use the GPUs. Source: vLLM 0.18.1, security "
        "notes. Mandatory: addresses of cloud load balancers are scanned all day. Other stacks' servers are not checked",
        fix="an internal gateway class or load balancer, an API key (VLLM_API_KEY), or IAP in the backend's policy",
        level="mandatory",
        severity="critical",
        judge=_open,
    ),
    StackRule(
        name="unguarded-paths-public",
        subject="network",
        statement="A public vLLM with a key publishes only /v1.",
        evidence="vLLM checks the key only under /v1; /invocations, /tokenize and /metrics answer without it. Source: vLLM 0.18.1, "
        "openai/server_utils.py. Mandatory: the key can be bypassed",
        fix="a route that matches only the path prefix /v1, and no external load balancer on the Service",
        level="mandatory",
        severity="critical",
        judge=_unguarded,
    ),
    StackRule(
        name="public-in-clear-text",
        subject="network",
        statement="Public addresses of model servers use TLS.",
        evidence="prompts, answers and the key cross the internet unencrypted. Advisory: TLS may end in front of the address, outside "
        "this stack",
        fix="an HTTPS listener with a certificate, and an HTTP listener that only redirects",
        level="advisory",
        severity="high",
        judge=_clear_text,
    ),
)
