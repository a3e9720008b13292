"""Checks of the section `endpoint`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from settings.derived.router import CONNECTIONS_PER_GIB, MOST_SLOTS
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

_NO_GATEWAY = Row(
    "endpoint-without-gateway", "the endpoint picker is a part of the gateway", "gateway: {enabled: true}"
)
_BYPASS = Row(
    "load-balancer-bypasses-router",
    "that load balancer leads to the servers themselves, around the routers and their limits",
    "internalLoadBalancer: false; a gateway leads to the routers",
)
_MANY = Row(
    "router-too-many-servers",
    "a router finds its servers in one DNS answer of 8 KiB, which has no room for more addresses; others would get no requests",
    "endpoint: {kind: clusterIp}, or several stacks",
)
_SMALL = Row(
    "router-undersized",
    f"each request in flight is a connection, also while one router is replaced; a GiB is for {CONNECTIONS_PER_GIB:,}",
    "more memoryGib, or more replicas",
)
_ALONE = Row(
    "one-router",
    "a router that ends takes every request with it until its successor is ready",
    "replicas: 2",
    "warning",
)


def endpoint_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section."""
    kind, router = settings.endpoint_kind, settings.endpoint.router
    if kind == "inferenceGateway" and not settings.gateway.enabled:
        yield _NO_GATEWAY(
            "endpoint.kind", kind, "inferenceGateway with gateway.enabled; any other kind with and without"
        )
    if not settings.has_router:
        return
    if settings.server.internal_load_balancer:
        yield _BYPASS("server.internalLoadBalancer", True, f"false with endpoint.kind {kind}")
    if settings.replicas > MOST_SLOTS:
        path = f"server.{settings.server.size_key}"
        yield _MANY(path, settings.replicas, f"up to {MOST_SLOTS} with endpoint.kind {kind}")
    connections = settings.serving.concurrency_per_replica * settings.replicas
    left = max(1, router.replicas - 1)
    if connections > left * router.memory_gib * CONNECTIONS_PER_GIB:
        least = -(-connections // (left * CONNECTIONS_PER_GIB))
        allowed = f"{least} or more with {router.replicas} routers for {connections:,} requests in flight"
        yield _SMALL("endpoint.router.memoryGib", router.memory_gib, allowed)
    if router.replicas == 1:
        yield _ALONE("endpoint.router.replicas", 1, "2 or more, if the fleet must answer while a node is upgraded")
