"""Who has to talk to whom in a namespace, as the few facts that its network policies follow from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from settings.derived.compile_cache import server_account
from settings.names import SERVER_ACCOUNT, own_server_name

if TYPE_CHECKING:
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class VpcRanges:
    """CIDR ranges of the VPC that a cluster is in. None: not known, or there is none."""

    nodes: str | None = None
    pods: str | None = None
    """Does not count as clients of the VPC: pods are let in by label."""
    services: str | None = None
    """GKE gives the cluster's DNS its tenth address."""
    proxies: str | None = None
    """The proxy-only subnet. Where it is not known, a gateway's servers must let every private range in."""

    @property
    def known(self) -> tuple[str, ...]:
        """Every range that is known."""
        return tuple(one for one in (self.nodes, self.pods, self.services, self.proxies) if one is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTraffic:
    """What the Inference Gateway in front of the servers brings along."""

    pool: str
    """Name of the InferencePool; the endpoint picker's pods are named after it."""
    public: bool = False
    """Whether the load balancer's address is outside the VPC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryTraffic:
    """What a canary brings along. Its connections are those of the servers without the gateway's, in policies of its own: those of the
    others stay as they are while it comes and goes.
    """

    server: str
    """Value of the label `app` on its pods."""
    server_account: str = SERVER_ACCOUNT
    """Its service account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Connections that a namespace with one model's servers needs. Everything else stays denied.

    Raises ValueError for a server that is named like another workload.
    """

    server: str
    """Value of the label `app` on the servers' pods."""
    server_account: str = SERVER_ACCOUNT
    """The servers' service account: of their own release where they keep compile caches."""
    guards_v1_only: bool = False
    """Whether the servers ask for an API key, which they do under /v1 alone: with a gateway, pods then may not reach them past it."""
    internal_load_balancer: bool = False
    """Whether clients of the VPC reach the servers through a passthrough load balancer."""
    ranges: VpcRanges = VpcRanges()
    """The VPC's own ranges."""
    gateway: GatewayTraffic | None = None
    """The gateway in front of the servers, where there is one."""
    weights_writer: bool = True
    """Whether a Job of this namespace downloads the weights; else each server downloads them itself."""
    benchmark: bool = False
    """Whether benchmark pods load the servers."""
    monitoring: bool = True
    """Whether managed Prometheus scrapes the pods."""
    compile_cache: bool = False
    """Whether the servers keep compile caches in a bucket."""
    spending: bool = False
    """Whether a spending guard counts and stops, through the control plane."""
    canary: CanaryTraffic | None = None
    """One or a few servers of the next release beside the others."""

    def __post_init__(self) -> None:
        own_server_name(self.server)


def traffic(settings: Settings) -> Traffic:
    """The connections of one stack."""
    gateway, network = settings.gateway, settings.network
    own = VpcRanges(
        nodes=network.node_cidr,
        pods=network.pod_cidr,
        services=network.service_cidr,
        proxies=network.proxy_only.cidr if settings.proxy_only_subnet else None,
    )
    return Traffic(
        server=settings.server.name,
        server_account=server_account(settings),
        guards_v1_only=settings.guards_v1_only,
        internal_load_balancer=settings.server.internal_load_balancer,
        # A guest's settings do not know the platform's ranges; its outputs do.
        ranges=own if settings.owns_platform else VpcRanges(),
        gateway=GatewayTraffic(
            pool=gateway.pool,
            public=gateway.gateway_class != "gke-l7-rilb",
        )
        if gateway.enabled
        else None,
        weights_writer=settings.weights.is_written,
        benchmark=settings.benchmark.enabled,
        monitoring=settings.monitoring.enabled,
        compile_cache=settings.server.compile_cache.enabled,
        spending=settings.spending is not None,
        canary=None
        if settings.as_canary is None
        else CanaryTraffic(server=settings.as_canary.server.name, server_account=server_account(settings.as_canary)),
    )
