"""The arguments of `Router` that follow from a stack's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

from settings.sections.endpoint import Router

if TYPE_CHECKING:
    from settings.stack import Settings

LEAST_SERVERS: Final = 32
"""Servers that a router has room for at least: a fleet grows to them without new routers. Assumed."""
CONNECTIONS_PER_GIB: Final = 10_000
"""Client connections for a GiB of a router's memory. Assumed: HAProxy's two buffers of 16 KiB for each stream, and twice that for the
kernel's."""
MOST_SERVERS: Final = 400
"""Addresses in one DNS answer of 8 KiB, the largest that HAProxy accepts. Source: 16 bytes a record, and the question."""


class RouterNeeds(TypedDict):
    """Fields of `workloads.router.router.RouterArgs`, which documents them."""

    router: Router
    max_in_flight: int
    max_servers: int


def router_needs(settings: Settings) -> RouterNeeds | None:
    """The arguments of a stack's routers; None without one."""
    if not settings.has_router:
        return None
    return {
        "router": settings.endpoint.router,
        "max_in_flight": settings.max_in_flight,
        "max_servers": max_servers(settings),
    }


def router_vcpus(settings: Settings) -> int:
    """CPUs of the routers' pods."""
    router = settings.endpoint.router
    return int(settings.has_router) * router.replicas * router.cpu


def max_servers(settings: Settings) -> int:
    """Most servers that a router has room for: twice the fleet's full size."""
    return min(MOST_SERVERS, max(LEAST_SERVERS, 2 * settings.replicas))
