"""Checks of `server.rankPorts`: a port for each rank, and something that chooses among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from settings.sections.engine import Engine
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings


def rank_problems(settings: Settings) -> Iterator[Finding]:
    """Every reason why a port per rank does not work here."""
    path, server = key("server.rankPorts"), settings.server
    yield from rank_port_problems(path, server.rank_ports, settings.serving.engine)
    if not server.rank_ports:
        return
    if not settings.sees_ranks:
        yield Finding(
            id="ranks-unseen",
            subject=path,
            found=True,
            allowed="true with endpoint.kind inferenceGateway or leastRequest, which send requests to the ports of all ranks",
            why=f"with {settings.endpoint_kind} requests reach port 8000 only, the first rank of a pod, and its other GPUs stay idle",
            write="endpoint: {kind: leastRequest}, or remove rankPorts: vLLM then spreads a pod's requests over its ranks",
        )
    if server.internal_load_balancer:
        yield Finding(
            id="ranks-behind-load-balancer",
            subject=key("server.internalLoadBalancer"),
            found=True,
            allowed="false with server.rankPorts",
            why="its clients would reach the first rank of each pod only",
            write="remove internalLoadBalancer, and use a gateway's internal address",
        )

    if settings.rollout.canary is not None:
        yield Finding(
            id="ranks-of-a-canary",
            subject=path,
            found=True,
            allowed="false with rollout.canary",
            why="`fleet rollout judge` measures one replica through one port, which would be one rank of it",
            write="remove rankPorts while there is a canary",
        )
    if settings.has_picker and not settings.owns_platform:
        yield Finding(
            id="ranks-behind-anothers-firewall",
            subject=path,
            found=True,
            allowed="false behind the gateway of a stack that joins a cluster",
            why="the firewall rule of the cluster's own stack lets the load balancer's proxies reach port 8000 only",
            write="rankPorts: false",
        )


def rank_port_problems(path: str, wanted: bool, engine: Engine) -> Iterator[Finding]:
    """Whether the engine has ranks that can be served apart. `path`: of the setting."""
    if not wanted:
        return
    if engine.data_parallel_size < 2:
        yield Finding(
            id="rank-ports-of-one",
            subject=path,
            found=True,
            allowed="false with one rank",
            why="a pod with one rank has one port already",
            write="remove it",
        )
    if engine.api_server_count not in (None, engine.data_parallel_size):
        yield Finding(
            id="rank-ports-with-api-servers",
            subject=path,
            found=True,
            allowed="true without apiServerCount",
            why="each rank is a server of its own with one API server",
            write="remove apiServerCount from server.engine, or remove rankPorts",
        )
