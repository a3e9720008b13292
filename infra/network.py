"""The VPC of the fleet: one node subnet, one way out, and what the regional load balancer needs."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from infra.naming import name_of
from settings.names import EPP_EXT_PROC_PORT, HTTP_PORT
from settings.settings import Settings

POD_RANGE = "pods"
SERVICE_RANGE = "services"
"""Names of the secondary ranges; they live inside the subnet, so no stack name is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArgs:
    """Arguments of `Network`."""

    settings: Settings
    """The stack; `settings.network` has the ranges, already checked for overlap and size."""


class Network(pulumi.ComponentResource):
    """A VPC without automatic subnets. Nodes have no public address: what they fetch goes through Cloud NAT.

    It makes no firewall rule for health checks: in a VPC of the cluster's own project GKE writes and removes those
    itself (a Shared VPC would need them from the host project, which this component does not cover).
    """

    vpc: compute.Network
    nodes: compute.Subnetwork
    nat: compute.RouterNat
    proxy_only: compute.Subnetwork | None
    """The proxy-only subnet, where the stack asks for one. Whatever makes load balancers must be gone before it goes,
    so whatever makes load balancers depends on it: the Kubernetes provider does, see `infra.platform`."""
    proxy_only_self_link: pulumi.Output[str]
    """Its self link; empty where there is none."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Network", name, None, opts)
        settings, ranges = args.settings, args.settings.network
        child = pulumi.ResourceOptions(parent=self)
        self.vpc = compute.Network(
            f"{name}-vpc",
            name=name_of(settings, "vllm"),
            project=settings.project,
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            opts=child,
        )
        self.nodes = compute.Subnetwork(
            f"{name}-nodes",
            name=name_of(settings, "vllm-nodes"),
            project=settings.project,
            region=settings.region,
            network=self.vpc.self_link,
            ip_cidr_range=ranges.node_cidr,
            secondary_ip_ranges=[
                compute.SubnetworkSecondaryIpRangeArgs(range_name=POD_RANGE, ip_cidr_range=ranges.pod_cidr),
                compute.SubnetworkSecondaryIpRangeArgs(range_name=SERVICE_RANGE, ip_cidr_range=ranges.service_cidr),
            ],
            # Images, logs, metrics and results go to Google's APIs directly: not through NAT, which bills per GiB.
            private_ip_google_access=True,
            opts=child,
        )
        router = compute.Router(
            f"{name}-router",
            name=name_of(settings, "vllm-router"),
            project=settings.project,
            region=settings.region,
            network=self.vpc.self_link,
            opts=child,
        )
        self.nat = compute.RouterNat(
            f"{name}-nat",
            name=name_of(settings, "vllm-nat"),
            project=settings.project,
            region=settings.region,
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
            min_ports_per_vm=ranges.nat.min_ports_per_vm,
            max_ports_per_vm=ranges.nat.max_ports_per_vm,
            enable_endpoint_independent_mapping=False,
            # Errors only: they are dropped connections, the one sign that ports ran out.
            log_config=compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=child,
        )
        self.proxy_only = self._load_balancer_side(name, settings, child) if settings.proxy_only_subnet else None
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

    def _load_balancer_side(self, name: str, settings: Settings, child: pulumi.ResourceOptions) -> compute.Subnetwork:
        """The proxies' own range, and their way to the pods."""
        cidr = settings.network.proxy_only.cidr
        proxy_only = compute.Subnetwork(
            f"{name}-proxy-only",
            name=name_of(settings, "vllm-proxy-only"),
            project=settings.project,
            region=settings.region,
            network=self.vpc.self_link,
            ip_cidr_range=cidr,
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
            name=name_of(settings, "vllm-from-proxies"),
            project=settings.project,
            network=self.vpc.self_link,
            description="Regional load balancer's proxies to vLLM and to the endpoint picker",
            direction="INGRESS",
            source_ranges=[cidr],
            # Pods have addresses of their own here, so the rule opens them and leaves the nodes shut.
            destination_ranges=[settings.network.pod_cidr],
            allows=[compute.FirewallAllowArgs(protocol="tcp", ports=[str(HTTP_PORT), str(EPP_EXT_PROC_PORT)])],
            opts=child,
        )
        return proxy_only
