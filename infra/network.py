"""A VPC for a GKE cluster: node subnet, Cloud NAT, and the proxy-only subnet of a regional load balancer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
from pulumi_gcp import compute

from facts.names import EPP_EXT_PROC_PORT, HTTP_PORT
from infra.naming import Place, name_of
from settings.arguments import checked, refuse
from settings.checks.platform import nat_problems, range_problems
from settings.sections.network import Network as NetworkSection

POD_RANGE = "pods"
SERVICE_RANGE = "services"
"""Names of the secondary ranges; they are scoped to the subnet and need no prefix."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArgs:
    """Arguments of `Network`. Raises ValueError for invalid or overlapping ranges and for ports that Cloud NAT refuses."""

    place: Place
    """Project and region of the cluster. Names: VPC `<name_prefix>-vllm`, subnet `<name_prefix>-vllm-nodes`, and so on. None of
    these resources supports labels."""
    network: NetworkSection = field(default_factory=NetworkSection)
    """Ranges of nodes, pods, Services and the proxy-only subnet; minimum and maximum of Cloud NAT ports per node.
    `proxy_only.enabled` is ignored here."""
    proxy_only: bool = False
    """Whether to create a proxy-only subnet, required by regional load balancers and Gateways."""
    proxied_ports: Sequence[int] = (HTTP_PORT, EPP_EXT_PROC_PORT)
    """TCP ports of pods that the proxies may reach. Default: vLLM's and the endpoint picker's."""

    def __post_init__(self) -> None:
        refuse(
            self,
            (*range_problems("network", self.network, self.proxy_only), *nat_problems("network.nat", self.network.nat)),
        )


class Network(pulumi.ComponentResource):
    """A VPC without automatic subnets. Nodes have no public address; downloads go through Cloud NAT.

    It creates no firewall rule for health checks: in a VPC of the cluster's own project, GKE manages those
    itself. Shared VPC, which would need them in the host project, is not supported.
    """

    place: Place
    """Project, region and labels, also for the cluster."""
    ranges: NetworkSection
    """Ranges of nodes, pods, Services and the proxy-only subnet, if any."""
    vpc: compute.Network
    nodes: compute.Subnetwork
    nat: compute.RouterNat
    proxy_only: compute.Subnetwork | None
    """The proxy-only subnet, if any. Load balancers must be deleted before it,
    so the cluster's Kubernetes provider depends on it, in `__main__`."""
    proxy_only_self_link: pulumi.Output[str]
    """Self link of the proxy-only subnet, or empty."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Network", name, None, opts)
        self.place, self.ranges = args.place, args.network
        project, region = args.place.project, args.place.region
        child = pulumi.ResourceOptions(parent=self)
        self.vpc = compute.Network(
            f"{name}-vpc",
            name=name_of(args.place.name_prefix, "vllm"),
            project=project,
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            opts=child,
        )
        self.nodes = compute.Subnetwork(
            f"{name}-nodes",
            name=name_of(args.place.name_prefix, "vllm-nodes"),
            project=project,
            region=region,
            network=self.vpc.self_link,
            ip_cidr_range=args.network.node_cidr,
            secondary_ip_ranges=[
                compute.SubnetworkSecondaryIpRangeArgs(range_name=POD_RANGE, ip_cidr_range=args.network.pod_cidr),
                compute.SubnetworkSecondaryIpRangeArgs(
                    range_name=SERVICE_RANGE, ip_cidr_range=args.network.service_cidr
                ),
            ],
            # Images, logs, metrics and results reach Google's APIs directly, not through NAT, which bills per GiB.
            private_ip_google_access=True,
            opts=child,
        )
        router = compute.Router(
            f"{name}-router",
            name=name_of(args.place.name_prefix, "vllm-router"),
            project=project,
            region=region,
            network=self.vpc.self_link,
            opts=child,
        )
        self.nat = compute.RouterNat(
            f"{name}-nat",
            name=name_of(args.place.name_prefix, "vllm-nat"),
            project=project,
            region=region,
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            # Only this subnet: other subnets of the VPC get no internet access by accident.
            source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
            subnetworks=[
                compute.RouterNatSubnetworkArgs(name=self.nodes.self_link, source_ip_ranges_to_nats=["ALL_IP_RANGES"])
            ],
            # Nodes start with few ports and get more while they download. A fixed number would be too few for the
            # weights writer or waste addresses on idle nodes. Endpoint-independent mapping excludes dynamic ports.
            enable_dynamic_port_allocation=True,
            min_ports_per_vm=args.network.nat.min_ports_per_vm,
            max_ports_per_vm=args.network.nat.max_ports_per_vm,
            enable_endpoint_independent_mapping=False,
            # Errors only: dropped connections, the only sign that ports ran out.
            log_config=compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=child,
        )
        self.proxy_only = self._load_balancer_side(name, args, child) if args.proxy_only else None
        self.proxy_only_self_link = (
            pulumi.Output.from_input("") if self.proxy_only is None else self.proxy_only.self_link
        )
        self.register_outputs(
            {
                "network": self.vpc.self_link,
                "nodes": self.nodes.self_link,
                "proxyOnlySubnet": self.proxy_only_self_link,
            }
        )

    def _load_balancer_side(self, name: str, args: NetworkArgs, child: pulumi.ResourceOptions) -> compute.Subnetwork:
        """The proxies' subnet and their firewall rule."""
        proxy_only = compute.Subnetwork(
            f"{name}-proxy-only",
            name=name_of(args.place.name_prefix, "vllm-proxy-only"),
            project=args.place.project,
            region=args.place.region,
            network=self.vpc.self_link,
            ip_cidr_range=args.network.proxy_only.cidr,
            purpose="REGIONAL_MANAGED_PROXY",
            role="ACTIVE",
            opts=pulumi.ResourceOptions(
                parent=self,
                # The load balancer releases the range some minutes after its Gateway is deleted.
                custom_timeouts=pulumi.CustomTimeouts(delete="30m"),
            ),
        )
        compute.Firewall(
            f"{name}-from-proxies",
            name=name_of(args.place.name_prefix, "vllm-from-proxies"),
            project=args.place.project,
            network=self.vpc.self_link,
            description="Regional load balancer's proxies to vLLM and to the endpoint picker",
            direction="INGRESS",
            source_ranges=[args.network.proxy_only.cidr],
            # Pods have their own addresses, so the rule admits pods and not nodes.
            destination_ranges=[args.network.pod_cidr],
            allows=[compute.FirewallAllowArgs(protocol="tcp", ports=[str(port) for port in args.proxied_ports])],
            opts=child,
        )
        return proxy_only
