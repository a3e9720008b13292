"""Checks of `server.rankPorts`: a port for each rank, and something that chooses among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

_UNSEEN = Row(
    "ranks-unseen",
    "requests reach port 8000 only, the first rank of a pod, and its other GPUs stay idle",
    "endpoint: {kind: leastRequest}, or remove rankPorts: vLLM then spreads a pod's requests over its ranks",
)
_LOAD_BALANCER = Row(
    "ranks-behind-load-balancer",
    "its clients would reach the first rank of each pod only",
    "remove internalLoadBalancer, and use a gateway's internal address",
)
_CANARY = Row(
    "ranks-of-a-canary",
    "`fleet rollout judge` measures one replica through one port, which would be one rank of it",
    "remove rankPorts while there is a canary",
)
_FIREWALL = Row(
    "ranks-behind-anothers-firewall",
    "the firewall rule of the cluster's own stack lets the load balancer's proxies reach port 8000 only",
    "rankPorts: false",
)
_ONE_RANK = Row("rank-ports-of-one", "a pod with one rank has one port already", "remove it")
_API_SERVERS = Row(
    "rank-ports-with-api-servers",
    "each rank is a server of its own with one API server",
    "remove apiServerCount from server.engine, or remove rankPorts",
)


def rank_problems(settings: Settings) -> Iterator[Finding]:
    """Every reason why a port per rank does not work here."""
    path, server, engine = "server.rankPorts", settings.server, settings.serving.engine
    if not server.rank_ports:
        return
    if engine.data_parallel_size < 2:
        yield _ONE_RANK(path, True, "false with one rank")
    if engine.api_server_count not in (None, engine.data_parallel_size):
        yield _API_SERVERS(path, True, "true without apiServerCount")
    if not settings.sees_ranks:
        yield _UNSEEN(path, True, "true with endpoint.kind inferenceGateway or leastRequest")
    if server.internal_load_balancer:
        yield _LOAD_BALANCER("server.internalLoadBalancer", True, "false with server.rankPorts")
    if settings.rollout.canary is not None:
        yield _CANARY(path, True, "false with rollout.canary")
    if settings.has_picker and not settings.owns_platform:
        yield _FIREWALL(path, True, "false behind the gateway of a stack that joins a cluster")
