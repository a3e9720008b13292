"""Rules for model servers that the internet can reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from facts.finding import Finding
from objects import named, namespace_of, of_kind, own_name, shown
from routing import (
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
from rule import Resource, Settings, StackRule, dig, finding, listed
from tokens import GKE_API


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
    """Whether Identity-Aware Proxy is on in a GCPBackendPolicy."""
    policies = gke_policies(resources, "GCPBackendPolicy", backend)
    return any(dig(one.props, "spec", "default", "iap", "enabled") is True for one in policies)


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


RULES: Final = (
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
