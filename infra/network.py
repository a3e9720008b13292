"""A VPC for a GKE cluster: one node subnet, one way out, and what the regional load balancer needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from infra.naming import name_of
from settings.arguments import refuse, within_limits
from settings.checks.platform import nat_problems, range_problems
from settings.names import EPP_EXT_PROC_PORT, HTTP_PORT
from settings.sections.network import Nat

POD_RANGE = "pods"
SERVICE_RANGE = "services"
"""Names of the secondary ranges; they live inside the subnet, so no prefix is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArgs:
    """Arguments of `Network`. Raises ValueError where ranges are none or overlap, or Cloud NAT refuses the ports."""

    project: str
    """Id of the Google Cloud project."""
    region: str
    """Region of subnets and router, e.g. "europe-west4"; the cluster's."""
    name_prefix: str
    """First part of every name: `<name_prefix>-vllm` for the VPC, `<name_prefix>-vllm-nodes` for the subnet, and so on."""
    node_range: str = "10.0.0.0/20"
    """IPv4 range of the node subnet, one address a node; Google reserves four."""
    pod_range: str = "10.64.0.0/14"
    """Secondary IPv4 range for pods; Autopilot takes a /26 or larger from it for every node."""
    service_range: str = "10.32.0.0/20"
    """Secondary IPv4 range for Services."""
    proxy_only_range: str | None = None
    """IPv4 range of the proxy-only subnet that regional load balancers, Gateways among them, take their proxies from; /23
    recommended, /26 the minimum. None makes no such subnet. Source: Cloud Load Balancing, proxy-only subnets."""
    proxied_ports: Sequence[int] = (HTTP_PORT, EPP_EXT_PROC_PORT)
    """TCP ports of pods that those proxies reach. Default: vLLM's and the endpoint picker's."""
    nat_min_ports_per_vm: int = 1_024
    """Ports of Cloud NAT that a node starts with, 64 to 65536; a power of two."""
    nat_max_ports_per_vm: int = 16_384
    """Ports that a node may grow to, 64 to 65536; a power of two, above `nat_min_ports_per_vm`."""

    def __post_init__(self) -> None:
        within_limits(self, Nat, prefix="nat_")
        ranges = {field: getattr(self, field) for field in ("node_range", "pod_range", "service_range")}
        if self.proxy_only_range is not None:
            ranges["proxy_only_range"] = self.proxy_only_range
        low, high = ("nat_min_ports_per_vm", "nat_max_ports_per_vm")
        ports = nat_problems((low, self.nat_min_ports_per_vm), (high, self.nat_max_ports_per_vm))
        refuse(self, (*range_problems(ranges), *ports))


class Network(pulumi.ComponentResource):
    """A VPC without automatic subnets. Nodes have no public address: what they fetch goes through Cloud NAT.

    It makes no firewall rule for health checks: in a VPC of the cluster's own project GKE writes and removes those
    itself (a Shared VPC would need them from the host project, which this component does not cover).
    """

    project: str
    region: str
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
        project, region = self.project, self.region = args.project, args.region
        child = pulumi.ResourceOptions(parent=self)
        self.vpc = compute.Network(
            f"{name}-vpc",
            name=name_of(args.name_prefix, "vllm"),
            project=project,
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            opts=child,
        )
        self.nodes = compute.Subnetwork(
            f"{name}-nodes",
            name=name_of(args.name_prefix, "vllm-nodes"),
            project=project,
            region=region,
            network=self.vpc.self_link,
            ip_cidr_range=args.node_range,
            secondary_ip_ranges=[
                compute.SubnetworkSecondaryIpRangeArgs(range_name=POD_RANGE, ip_cidr_range=args.pod_range),
                compute.SubnetworkSecondaryIpRangeArgs(range_name=SERVICE_RANGE, ip_cidr_range=args.service_range),
            ],
            # Images, logs, metrics and results go to Google's APIs directly: not through NAT, which bills per GiB.
            private_ip_google_access=True,
            opts=child,
        )
        router = compute.Router(
            f"{name}-router",
            name=name_of(args.name_prefix, "vllm-router"),
            project=project,
            region=region,
            network=self.vpc.self_link,
            opts=child,
        )
        self.nat = compute.RouterNat(
            f"{name}-nat",
            name=name_of(args.name_prefix, "vllm-nat"),
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
            min_ports_per_vm=args.nat_min_ports_per_vm,
            max_ports_per_vm=args.nat_max_ports_per_vm,
            enable_endpoint_independent_mapping=False,
            # Errors only: they are dropped connections, the one sign that ports ran out.
            log_config=compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=child,
        )
        self.proxy_only = (
            self._load_balancer_side(name, args, args.proxy_only_range, child) if args.proxy_only_range else None
        )
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

    def _load_balancer_side(
        self, name: str, args: NetworkArgs, proxy_only_range: str, child: pulumi.ResourceOptions
    ) -> compute.Subnetwork:
        """The proxies' own range, and their way to the pods."""
        proxy_only = compute.Subnetwork(
            f"{name}-proxy-only",
            name=name_of(args.name_prefix, "vllm-proxy-only"),
            project=args.project,
            region=args.region,
            network=self.vpc.self_link,
            ip_cidr_range=proxy_only_range,
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
            name=name_of(args.name_prefix, "vllm-from-proxies"),
            project=args.project,
            network=self.vpc.self_link,
            description="Regional load balancer's proxies to vLLM and to the endpoint picker",
            direction="INGRESS",
            source_ranges=[proxy_only_range],
            # Pods have addresses of their own here, so the rule opens them and leaves the nodes shut.
            destination_ranges=[args.pod_range],
            allows=[compute.FirewallAllowArgs(protocol="tcp", ports=[str(port) for port in args.proxied_ports])],
            opts=child,
        )
        return proxy_only
