"""Section `endpoint`: what chooses a server for each request."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from settings.sections.section import IMAGE_PART, SecretReference, Section, ShortName, like

EndpointKind = Literal["clusterIp", "leastRequest", "prefixAware", "inferenceGateway"]
ROUTER_PRE_STOP_SECONDS: Final = 15
"""Pause before a router's stop signal: every load balancer has removed it by then. Assumed, as for the servers; a router refuses
nothing in it."""
ROUTER_EXIT_SECONDS: Final = 5
"""What a router needs to exit after its last stream. Assumed."""
MOST_CPU: Final = 28
"""vCPU of a pod. Source: GKE Autopilot, resource requests of the general-purpose platform: 30 with DaemonSets (unverified)."""
LONGEST_ROUTER_DRAIN: Final = 600 - ROUTER_PRE_STOP_SECONDS - ROUTER_EXIT_SECONDS
"""Source: GKE Autopilot, a grace period of 600 s at most."""
_HOST = r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?(:[0-9]{1,5})?"
RouterImage = Annotated[
    str,
    like(
        rf"^{_HOST}(/{IMAGE_PART}){{1,6}}:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}@sha256:[0-9a-f]{{64}}$",
        "HOST/PATH/NAME:TAG@sha256:DIGEST",
    ),
    Field(max_length=400),
]
"""An image with vllm-router, which the stack's owner builds."""


class RouterClient(Section):
    """A client with a key and limits of its own. Each router counts by itself."""

    name: ShortName
    """Name of the client, for logs."""
    secret: SecretReference
    """Secret Manager secret with its key: its name, or `{name, version}`. Routers read it at their start."""
    requests_per_second: Annotated[float, Field(ge=0.1, le=100_000)] | None = None
    """Requests a second through one router, counted over ten seconds; further ones get 429. Default: unlimited."""
    max_in_flight: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Requests in flight through one router; further ones get 429. Default: unlimited."""


class Router(Section):
    """The pods that choose a server, for the kinds leastRequest and prefixAware."""

    replicas: Annotated[int, Field(ge=1, le=20)] = 2
    """Routers. Each chooses by the requests that it has itself; all of them serve."""
    cpu: Annotated[int, Field(ge=1, le=MOST_CPU)] = 2
    """vCPU of one router, and its threads."""
    memory_gib: Annotated[int, Field(ge=1, le=50)] = 4
    """Memory of one router in GiB, for 10,000 connections each. More would need more files than a process may have."""
    max_in_flight: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Requests in flight at one server, or with `server.rankPorts` at one rank, through one router; further ones wait in the router.
    Default: what its engines run at once, or `server.needs.concurrencyPerReplica` if that is more."""
    max_queued: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """Requests that wait in one router; further ones get 429 with Retry-After."""
    queue_seconds: Annotated[int, Field(ge=1, le=3_600)] = 30
    """Seconds that a request waits in a router before it gets 503 with Retry-After."""
    timeout_seconds: Annotated[int, Field(ge=30, le=86_400)] = 3_600
    """Longest silence of a server or client in seconds, the time to the first token included."""
    drain_seconds: Annotated[int, Field(ge=5, le=LONGEST_ROUTER_DRAIN)] = LONGEST_ROUTER_DRAIN
    """Seconds that open streams have when a router is stopped; longer ones are cut. Default: 580, with a pause and the exit Autopilot's
    maximum."""
    image: RouterImage | None = None
    """Image with vllm-router 0.1.17 and Python, for prefixAware: no release of it is published as an image.
    docs/endpoint.md has the three lines that build one."""
    clients: Annotated[tuple[RouterClient, ...], Field(max_length=50)] = ()
    """Clients with keys of their own; requires `server.apiKeySecret`, the servers' key, which the routers then send. Default: every client
    sends the servers' key."""


class Endpoint(Section):
    """What chooses a server for each request."""

    kind: EndpointKind | None = None
    """`clusterIp`: the Service, for each connection. `leastRequest`: routers, the server with the fewest requests. `prefixAware`: routers,
    the server that saw the prompt's beginning. `inferenceGateway`: the gateway's endpoint picker. Default: `inferenceGateway` with
    `gateway.enabled`, else `clusterIp`."""
    router: Router = Router()
    """The routers."""
