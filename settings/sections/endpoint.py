"""Section `endpoint`: what chooses a server for each request."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from settings.sections.section import Section

EndpointKind = Literal["clusterIp", "leastRequest", "inferenceGateway"]
ROUTER_PRE_STOP_SECONDS: Final = 15
"""Pause before a router's stop signal: every load balancer has removed it by then. Assumed, as for the servers; a router refuses
nothing in it."""
ROUTER_EXIT_SECONDS: Final = 5
"""What a router needs to exit after its last stream. Assumed."""
MOST_CPU: Final = 28
"""vCPU of a pod. Source: GKE Autopilot, resource requests of the general-purpose platform: 30 with DaemonSets (unverified)."""
ROUTER_DRAIN_SECONDS: Final = 600 - ROUTER_PRE_STOP_SECONDS - ROUTER_EXIT_SECONDS
"""Seconds that open streams have when a router is stopped; longer ones are cut. Source: GKE Autopilot, a grace period of 600 s at most."""


class Router(Section):
    """The pods that choose a server, for the kind leastRequest: HAProxy."""

    replicas: Annotated[int, Field(ge=1, le=20)] = 2
    """Routers. Each chooses by the requests that it has itself; all of them serve."""
    cpu: Annotated[int, Field(ge=1, le=MOST_CPU)] = 2
    """vCPU of one router, and its threads."""
    memory_gib: Annotated[int, Field(ge=1, le=50)] = 4
    """Memory of one router in GiB, for 10,000 connections each. More would need more files than a process may have."""


class Endpoint(Section):
    """What chooses a server for each request."""

    kind: EndpointKind | None = None
    """`clusterIp`: the Service, for each connection. `leastRequest`: routers, the server with the fewest requests.
    `inferenceGateway`: the gateway's endpoint picker. Default: `inferenceGateway` with `gateway.enabled`, else `clusterIp`."""
    router: Router = Router()
    """The routers."""
