"""Checks of the section `endpoint`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from settings.derived.router import CONNECTIONS_PER_GIB, MOST_SLOTS
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.sections.endpoint import Router
    from settings.stack import Settings


def endpoint_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section."""
    kind, router = settings.endpoint_kind, settings.endpoint.router
    if kind == "inferenceGateway" and not settings.gateway.enabled:
        yield Finding(
            id="endpoint-without-gateway",
            subject=key("endpoint.kind"),
            found=kind,
            allowed="inferenceGateway with gateway.enabled; any other kind with and without",
            why="the endpoint picker is a part of the gateway",
            write="gateway: {enabled: true}",
        )
    if settings.gateway.enabled and not settings.has_picker and settings.gateway.epp.model_fields_set:
        yield Finding(
            id="picker-without-effect",
            subject=key("gateway.epp"),
            found=f"(set, with kind {kind})",
            allowed="left out, except with kind inferenceGateway",
            why=f"with {kind} there is no endpoint picker, so it has no effect",
            write="remove epp, or endpoint: {kind: inferenceGateway}",
        )
    if not settings.has_router:
        if router.model_fields_set:
            yield Finding(
                id="router-without-effect",
                subject=key("endpoint.router"),
                found=f"(set, with kind {kind})",
                allowed="left out, except with kind leastRequest",
                why=f"with {kind} there are no routers, so it has no effect",
                write="kind: leastRequest, or remove router",
            )
        return
    yield from _servers(settings)
    yield from _size(settings, router)


def _servers(settings: Settings) -> Iterator[Finding]:
    if settings.server.internal_load_balancer:
        yield Finding(
            id="load-balancer-bypasses-router",
            subject=key("server.internalLoadBalancer"),
            found=True,
            allowed=f"false with endpoint.kind {settings.endpoint_kind}",
            why="that load balancer leads to the servers themselves, around the routers and their limits",
            write="internalLoadBalancer: false"
            + ("" if settings.gateway.enabled else ", and gateway: {enabled: true}, which leads to the routers"),
        )
    if settings.replicas > MOST_SLOTS:
        yield Finding(
            id="router-too-many-servers",
            subject=key(f"server.{settings.server.size_key}"),
            found=settings.replicas,
            allowed=f"up to {MOST_SLOTS} with endpoint.kind {settings.endpoint_kind}",
            why="a router finds its servers in one DNS answer of 8 KiB, which has no room for more addresses; others would get no requests",
            write="endpoint: {kind: clusterIp}, or several stacks",
        )


def _size(settings: Settings, router: Router) -> Iterator[Finding]:
    """Whether the routers hold the declared connections, also while one of them is replaced."""
    connections = settings.serving.concurrency_per_replica * settings.replicas
    left = max(1, router.replicas - 1)
    if connections > left * router.memory_gib * CONNECTIONS_PER_GIB:
        least = -(-connections // (left * CONNECTIONS_PER_GIB))
        yield Finding(
            id="router-undersized",
            subject=key("endpoint.router.memoryGib"),
            found=router.memory_gib,
            allowed=f"{least} or more with {router.replicas} routers",
            why=f"{connections:,} requests in flight are declared, each with a connection, and while a router is replaced "
            f"{left} hold{'s' if left == 1 else ''} them; a GiB is for {CONNECTIONS_PER_GIB:,}",
            write=f"memoryGib: {least}, or more replicas",
        )
    if router.replicas == 1:
        yield Finding(
            id="one-router",
            subject=key("endpoint.router.replicas"),
            found=1,
            allowed="2 or more, if the fleet must answer while a node is upgraded",
            why="a router that ends takes every request with it until its successor is ready",
            write="replicas: 2",
            severity="warning",
        )
