"""A VPC for a GKE cluster: one node subnet, one way out, and what the regional load balancer needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
from pulumi_gcp import compute

from infra.naming import Place, name_of
from settings.arguments import refuse
from settings.checks.platform import nat_problems, range_problems
from settings.names import EPP_EXT_PROC_PORT, HTTP_PORT
from settings.sections.network import Network as NetworkSection

POD_RANGE = "pods"
SERVICE_RANGE = "services"
"""Names of the secondary ranges; they live inside the subnet, so no prefix is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArgs:
    """Arguments of `Network`. Raises ValueError where ranges are none or overlap, or Cloud NAT refuses the ports."""

    place: Place
    """Project and region, the cluster's. Names begin with its prefix: `<name_prefix>-vllm` the VPC, `<name_prefix>-vllm-nodes` the
    subnet, and so on. Nothing here takes labels."""
    network: NetworkSection = field(default_factory=NetworkSection)
    """Ranges of nodes, pods, Services and the proxy-only subnet, and the ports of Cloud NAT that a node starts with and may grow to.
    `proxy_only.enabled` is the caller's to read."""
    proxy_only: bool = False
    """Whether there is a proxy-only subnet, which regional load balancers, Gateways among them, take their proxies from."""
    proxied_ports: Sequence[int] = (HTTP_PORT, EPP_EXT_PROC_PORT)
    """TCP ports of pods that those proxies reach. Default: vLLM's and the endpoint picker's."""

    def __post_init__(self) -> None:
        refuse(
            self,
            (*range_problems("network", self.network, self.proxy_only), *nat_problems("network.nat", self.network.nat)),
        )


class Network(pulumi.ComponentResource):
    """A VPC without automatic subnets. Nodes have no public address: what they fetch goes through Cloud NAT.

    It makes no firewall rule for health checks: in a VPC of the cluster's own project GKE writes and removes those
    itself (a Shared VPC would need them from the host project, which this component does not cover).
    """

    place: Place
    """Where it is; the cluster is there, too."""
    ranges: NetworkSection
    """Ranges of nodes, pods, Services and, where there is one, the proxy-only subnet."""
    vpc: compute.Network
    nodes: compute.Subnetwork
    nat: compute.RouterNat
    proxy_only: compute.Subnetwork | None
    """The proxy-only subnet, where there is a range for one. Whatever makes load balancers must be gone before it goes,
    so whatever makes load balancers depends on it: the cluster's Kubernetes provider does, in `__main__`."""
    proxy_only_self_link: pulumi.Output[str]
    """Its self link; empty where there is none."""

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
            # Images, logs, metrics and results go to Google's APIs directly: not through NAT, which bills per GiB.
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
            # This subnet alone: whoever adds another one to the VPC decides whether that reaches the internet.
            source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
            subnetworks=[
                compute.RouterNatSubnetworkArgs(name=self.nodes.self_link, source_ip_ranges_to_nats=["ALL_IP_RANGES"])
            ],
            # A node starts with few ports and takes more while it downloads; a fixed number would be too few for the
            # weights' writer or waste an address on idle nodes. Endpoint-independent mapping excludes dynamic ports.
            enable_dynamic_port_allocation=True,
            min_ports_per_vm=args.network.nat.min_ports_per_vm,
            max_ports_per_vm=args.network.nat.max_ports_per_vm,
            enable_endpoint_independent_mapping=False,
            # Errors only: they are dropped connections, the one sign that ports ran out.
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
        """The proxies' own range, and their way to the pods."""
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
                # The load balancer lets go of the range some minutes after its Gateway is deleted.
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
            # Pods have addresses of their own here, so the rule opens them and leaves the nodes shut.
            destination_ranges=[args.network.pod_cidr],
            allows=[compute.FirewallAllowArgs(protocol="tcp", ports=[str(port) for port in args.proxied_ports])],
            opts=child,
        )
        return proxy_only
