"""Who has to talk to whom in a namespace, as the few facts that its network policies follow from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from settings.names import own_server_name

if TYPE_CHECKING:
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTraffic:
    """What the Inference Gateway in front of the servers brings along."""

    pool: str
    """Name of the InferencePool; the endpoint picker's pods are named after it."""
    proxy_range: str | None = None
    """CIDR range of the proxy-only subnet. None: it is another program's, so that every private range must be let in."""
    public: bool = False
    """Whether the load balancer's address is outside the VPC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Connections that a namespace with one model's servers needs. Everything else stays denied.

    Raises ValueError for a server that is named like another workload.
    """

    server: str
    """Value of the label `app` on the servers' pods."""
    guards_v1_only: bool = False
    """Whether the servers ask for an API key, which they do under /v1 alone: with a gateway, pods then may not reach them past it."""
    internal_load_balancer: bool = False
    """Whether clients of the VPC reach the servers through a passthrough load balancer."""
    node_range: str | None = None
    """CIDR range of the cluster's nodes. None: not known."""
    pod_range: str | None = None
    """CIDR range of the cluster's pods, which does not count as clients of the VPC. None: not known."""
    service_range: str | None = None
    """CIDR range of the cluster's Services; GKE gives the cluster's DNS its tenth address. None: not known."""
    gateway: GatewayTraffic | None = None
    """The gateway in front of the servers, where there is one."""
    weights_writer: bool = True
    """Whether a Job of this namespace downloads the weights; else each server downloads them itself."""
    benchmark: bool = False
    """Whether benchmark pods load the servers."""
    monitoring: bool = True
    """Whether managed Prometheus scrapes the pods."""

    def __post_init__(self) -> None:
        own_server_name(self.server)

    @property
    def own_ranges(self) -> tuple[str, ...]:
        """Every range of the VPC that is known here."""
        proxies = None if self.gateway is None else self.gateway.proxy_range
        return tuple(one for one in (self.node_range, self.pod_range, self.service_range, proxies) if one is not None)


def traffic(settings: Settings) -> Traffic:
    """The connections of one stack."""
    # A guest cannot see the platform's ranges.
    gateway, ranges = settings.gateway, settings.network if settings.owns_platform else None
    return Traffic(
        server=settings.server.name,
        guards_v1_only=settings.guards_v1_only,
        internal_load_balancer=settings.server.internal_load_balancer,
        node_range=None if ranges is None else ranges.node_cidr,
        pod_range=None if ranges is None else ranges.pod_cidr,
        service_range=None if ranges is None else ranges.service_cidr,
        gateway=GatewayTraffic(
            pool=gateway.pool,
            proxy_range=None if ranges is None else ranges.proxy_only.cidr,
            public=gateway.gateway_class != "gke-l7-rilb",
        )
        if gateway.enabled
        else None,
        weights_writer=settings.weights.source == "hyperdisk",
        benchmark=settings.benchmark.enabled,
        monitoring=settings.monitoring.enabled,
    )
