"""The VPC of a GKE cluster, new or existing, and the proxy-only subnet of a regional load balancer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from facts.names import EPP_EXT_PROC_PORT, HTTP_PORT
from infra.naming import name_of
from settings.sections.network import ExistingVpc


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArgs:
    """Arguments of `Network`. The ranges must not overlap."""

    node_cidr: str = "10.0.0.0/20"
    """Primary range of the node subnet, one address per node."""
    pod_cidr: str = "10.64.0.0/14"
    """Secondary range for pods; Autopilot uses a /26 or larger for each node."""
    service_cidr: str = "10.32.0.0/20"
    """Secondary range for Services."""


class Network(pulumi.ComponentResource):
    """A VPC without automatic subnets. Nodes have no public address; downloads go through Cloud NAT.

    It creates no firewall rule for health checks: in a VPC of the cluster's own project, GKE manages those itself.
    """

    network: pulumi.Output[str]
    """Self link of the VPC."""
    subnetwork: pulumi.Output[str]
    """Self link of the node subnet."""
    pod_range = "pods"
    service_range = "services"
    """Names of the secondary ranges; they are scoped to the subnet and need no prefix."""
    pod_cidr: str
    project: str | None = None
    """The provider's."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:Network", name, None, opts)
        stack, child = pulumi.get_stack(), pulumi.ResourceOptions(parent=self)
        vpc = compute.Network(
            f"{name}-vpc",
            name=name_of(stack, "vllm"),
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            opts=child,
        )
        nodes = compute.Subnetwork(
            f"{name}-nodes",
            name=name_of(stack, "vllm-nodes"),
            network=vpc.self_link,
            ip_cidr_range=args.node_cidr,
            secondary_ip_ranges=[
                compute.SubnetworkSecondaryIpRangeArgs(range_name=self.pod_range, ip_cidr_range=args.pod_cidr),
                compute.SubnetworkSecondaryIpRangeArgs(range_name=self.service_range, ip_cidr_range=args.service_cidr),
            ],
            # Images, logs, metrics and results reach Google's APIs directly, not through NAT, which bills per GiB.
            private_ip_google_access=True,
            opts=child,
        )
        router = compute.Router(f"{name}-router", name=name_of(stack, "vllm-router"), network=vpc.self_link, opts=child)
        compute.RouterNat(
            f"{name}-nat",
            name=name_of(stack, "vllm-nat"),
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            # Only this subnet: other subnets of the VPC get no internet access by accident.
            source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
            subnetworks=[
                compute.RouterNatSubnetworkArgs(name=nodes.self_link, source_ip_ranges_to_nats=["ALL_IP_RANGES"])
            ],
            # Nodes start with few ports and get more while they download. A fixed number would be too few for the
            # weights writer or waste addresses on idle nodes. Endpoint-independent mapping excludes dynamic ports.
            enable_dynamic_port_allocation=True,
            min_ports_per_vm=1_024,
            max_ports_per_vm=16_384,
            enable_endpoint_independent_mapping=False,
            # Errors only: dropped connections, the only sign that ports ran out.
            log_config=compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=child,
        )
        self.network, self.subnetwork, self.pod_cidr = vpc.self_link, nodes.self_link, args.pod_cidr
        self.register_outputs({"network": self.network, "subnetwork": self.subnetwork})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingNetwork:
    """A VPC that exists, of the cluster's project or of a Shared VPC's host project. Nothing of it is created, changed or deleted."""

    project: str
    """Project of the VPC."""
    region: str
    """Region of the subnet."""
    names: ExistingVpc
    """Names of the VPC, of the node subnet and of its secondary ranges."""
    pod_cidr: str
    """The range for pods."""

    @property
    def network(self) -> str:
        """Resource name of the VPC."""
        return f"projects/{self.project}/global/networks/{self.names.vpc}"

    @property
    def subnetwork(self) -> str:
        """Resource name of the node subnet."""
        return f"projects/{self.project}/regions/{self.region}/subnetworks/{self.names.subnet}"

    @property
    def pod_range(self) -> str:
        """Name of the subnet's secondary range for pods."""
        return self.names.pod_range

    @property
    def service_range(self) -> str:
        """Name of the subnet's secondary range for Services."""
        return self.names.service_range


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOnlySubnetArgs:
    """Arguments of `ProxyOnlySubnet`."""

    network: Network | ExistingNetwork
    """The VPC, whose pods the proxies may reach."""
    cidr: str = "10.8.0.0/23"
    """Range of the subnet: /23 recommended, /26 minimum, outside the VPC's other ranges."""
    ports: Sequence[int] = (HTTP_PORT, EPP_EXT_PROC_PORT)
    """TCP ports of pods that the proxies may reach. Default: vLLM's and the endpoint picker's."""


class ProxyOnlySubnet(pulumi.ComponentResource):
    """The subnet of a regional load balancer's proxies, and the firewall rule that lets them reach pods. One per VPC and region.

    Load balancers must be deleted before the subnet: let the cluster depend on it. Google releases the proxies some minutes after their
    Gateway is gone, and the provider does not repeat a delete that is refused meanwhile: docs/operate.md says how to go on.
    """

    def __init__(self, name: str, args: ProxyOnlySubnetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:infra:ProxyOnlySubnet", name, None, opts)
        network, stack, child = args.network, pulumi.get_stack(), pulumi.ResourceOptions(parent=self)
        compute.Subnetwork(
            f"{name}-subnet",
            name=name_of(stack, "vllm-proxy-only"),
            project=network.project,
            network=network.network,
            ip_cidr_range=args.cidr,
            purpose="REGIONAL_MANAGED_PROXY",
            role="ACTIVE",
            opts=child,
        )
        compute.Firewall(
            f"{name}-firewall",
            name=name_of(stack, "vllm-from-proxies"),
            project=network.project,
            network=network.network,
            description="Regional load balancer's proxies to vLLM and to the endpoint picker",
            direction="INGRESS",
            source_ranges=[args.cidr],
            # Pods have their own addresses, so the rule admits pods and not nodes.
            destination_ranges=[network.pod_cidr],
            allows=[compute.FirewallAllowArgs(protocol="tcp", ports=[str(port) for port in args.ports])],
            opts=child,
        )
        self.register_outputs({})
