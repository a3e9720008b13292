"""Required connections in a namespace, for its network policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from facts.names import HTTP_PORT, own_server_name

if TYPE_CHECKING:
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class VpcRanges:
    """CIDR ranges of the cluster's VPC. None: unknown or absent."""

    nodes: str | None = None
    pods: str | None = None
    """Not clients of the VPC: pods are allowed by label."""
    services: str | None = None
    """The cluster's DNS has its tenth address."""
    proxies: str | None = None
    """The proxy-only subnet. If it is unknown, a gateway's servers must allow every private range."""

    @property
    def known(self) -> tuple[str, ...]:
        """Every known range."""
        return tuple(cidr for cidr in (self.nodes, self.pods, self.services, self.proxies) if cidr is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTraffic:
    """Connections of the Inference Gateway."""

    pool: str | None
    """Name of the InferencePool, also for the endpoint picker's pods. None: the load balancer sends requests to a Service."""
    public: bool = False
    """Whether the load balancer's address is outside the VPC."""
    tls: bool = False
    """Whether clients call it on port 443."""
    restricted: bool = False
    """Whether the endpoint picker's pods meet the Pod Security level `restricted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryTraffic:
    """Connections of a canary in separate policies, so that the servers' policies do not change."""

    server: str
    """Value of the label `app` of its pods."""
    pool: str | None = None
    """Name of its InferencePool; None of an offline trial, which the gateway does not reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Required connections of a namespace with one model's servers; everything else is denied.

    Raises ValueError for a server with the name of another workload.
    """

    server: str
    """Value of the label `app` of the servers' pods."""
    rank_ports: int = 1
    """Ports of a server pod, from 8000: one per rank, or one for all."""
    status_port: int = HTTP_PORT
    """Port of a server pod with the health and the metrics of all of its servers."""
    guards_v1_only: bool = False
    """Whether the servers have an API key, which vLLM checks under /v1 only: with a gateway, pods may then not bypass it."""
    internal_load_balancer: bool = False
    """Whether clients in the VPC use a passthrough load balancer."""
    ranges: VpcRanges = VpcRanges()
    """The VPC's ranges."""
    gateway: GatewayTraffic | None = None
    """The gateway, if any."""
    router: bool = False
    """Whether routers are between clients and servers."""
    weights_writer: bool = True
    """Whether a Job downloads the weights; otherwise each server does."""
    weights_in_image: bool = False
    """Whether nothing downloads the weights, because their volume is restored from an image."""
    benchmark: bool = False
    """Whether benchmark pods send requests to the servers."""
    batch: bool = False
    """Whether pods of batches send requests to the servers."""
    monitoring: bool = True
    """Whether managed Prometheus scrapes the pods."""
    compile_cache: bool = False
    """Whether the servers have a compile cache in a bucket."""
    canary: CanaryTraffic | None = None
    """The canary, if any."""

    @property
    def pod_security(self) -> Literal["baseline", "restricted"]:
        """Pod Security level that every pod of the namespace meets; those of the chart inferencepool set no security context."""
        has_chart = self.gateway is not None and self.gateway.pool is not None and not self.gateway.restricted
        return "baseline" if has_chart else "restricted"

    def __post_init__(self) -> None:
        own_server_name(self.server)  # Services and network policies select by name


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
        rank_ports=settings.rank_ports,
        status_port=settings.status_port,
        guards_v1_only=settings.guards_v1_only,
        internal_load_balancer=settings.server.internal_load_balancer,
        # For a stack that joins a cluster, the platform's outputs have the ranges.
        ranges=own if settings.owns_platform else VpcRanges(),
        gateway=GatewayTraffic(
            pool=gateway.pool_name if settings.has_picker else None,
            restricted=gateway.has_llm_d,
            public=gateway.is_public,
            tls=gateway.hostname is not None,
        )
        if gateway.enabled
        else None,
        router=settings.has_router,
        weights_writer=settings.weights.is_written,
        weights_in_image=settings.weights.source == "image",
        benchmark=settings.benchmark.enabled,
        batch=settings.batch.enabled,
        monitoring=settings.monitoring.enabled,
        compile_cache=settings.server.compile_cache.enabled,
        canary=None
        if settings.as_canary is None
        else CanaryTraffic(
            server=settings.as_canary.server.name,
            pool=settings.canary_pool,
        ),
    )
