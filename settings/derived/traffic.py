"""Who has to talk to whom in a namespace, as the few facts that its network policies follow from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """Connections that a namespace with one model's servers needs. Everything else stays denied."""

    server: str
    """Value of the label `app` on the servers' pods."""
    guards_v1_only: bool = False
    """Whether the servers ask for an API key, which they do under /v1 alone: with a gateway, pods then may not reach them past it."""
    internal_load_balancer: bool = False
    """Whether clients of the VPC reach the servers through a passthrough load balancer."""
    pod_range: str | None = None
    """CIDR range of the cluster's pods, which does not count as clients of the VPC. None: not known."""
    gateway: GatewayTraffic | None = None
    """The gateway in front of the servers, where there is one."""
    weights_writer: bool = True
    """Whether a Job of this namespace downloads the weights; else each server downloads them itself."""
    benchmark: bool = False
    """Whether benchmark pods load the servers."""
    monitoring: bool = True
    """Whether managed Prometheus scrapes the pods."""


def traffic(settings: Settings) -> Traffic:
    """The connections of one stack."""
    gateway = settings.gateway
    return Traffic(
        server=settings.server.name,
        guards_v1_only=settings.guards_v1_only,
        internal_load_balancer=settings.server.internal_load_balancer,
        # A guest cannot see the platform's ranges.
        pod_range=settings.network.pod_cidr if settings.owns_platform else None,
        gateway=GatewayTraffic(
            pool=gateway.pool,
            proxy_range=settings.network.proxy_only.cidr if settings.owns_platform else None,
            public=gateway.gateway_class != "gke-l7-rilb",
        )
        if gateway.enabled
        else None,
        weights_writer=settings.weights.is_written,
        benchmark=settings.benchmark.enabled,
        monitoring=settings.monitoring.enabled,
    )
