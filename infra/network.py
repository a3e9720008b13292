"""The VPC of a GKE cluster, made here or existing, and the proxy-only subnet of a regional load balancer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
from pulumi_gcp import compute

from facts.names import EPP_EXT_PROC_PORT, HTTP_PORT
from infra.naming import Place, name_of
from settings.arguments import refuse
from settings.checks.platform import existing_problems
from settings.sections.network import ExistingVpc, ProxyOnly
from settings.sections.network import Network as NetworkSection

POD_RANGE = "pods"
SERVICE_RANGE = "services"
"""Names of the secondary ranges; they are scoped to the subnet and need no prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkArgs:
    """Arguments of `Network`."""

    place: Place
    """Project and region of the cluster. Names: VPC `<name_prefix>-vllm`, subnet `<name_prefix>-vllm-nodes`, and so on. None of
    these resources supports labels."""
    network: NetworkSection = field(default_factory=NetworkSection)
    """Ranges of nodes, pods and Services; minimum and maximum of Cloud NAT ports per node. `proxy_only` and `existing` are ignored here:
    `ProxyOnlySubnet`, `ExistingNetwork`."""


class Network(pulumi.ComponentResource):
    """A VPC without automatic subnets. Nodes have no public address; downloads go through Cloud NAT.

    It creates no firewall rule for health checks: in a VPC of the cluster's own project, GKE manages those itself.
    """

    place: Place
    """Project, region and labels, also for the cluster."""
    ranges: NetworkSection
    """Ranges of nodes, pods and Services."""
    vpc: compute.Network
    nodes: compute.Subnetwork
    nat: compute.RouterNat
    vpc_link: pulumi.Output[str]
    """Self link of the VPC."""
    nodes_link: pulumi.Output[str]
    """Self link of the node subnet."""
    pod_range = POD_RANGE
    service_range = SERVICE_RANGE

    @property
    def vpc_project(self) -> str:
        """Project of the VPC."""
        return self.place.project

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
            min_ports_per_vm=1_024,
            max_ports_per_vm=16_384,
            enable_endpoint_independent_mapping=False,
            # Errors only: dropped connections, the only sign that ports ran out.
            log_config=compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
            opts=child,
        )
        self.vpc_link, self.nodes_link = self.vpc.self_link, self.nodes.self_link
        self.register_outputs({"network": self.vpc.self_link, "nodes": self.nodes.self_link})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingNetwork:
    """A VPC that exists, of the cluster's project or of a Shared VPC's host project. Nothing of it is created, changed or deleted.

    Raises ValueError for missing, invalid or overlapping ranges: network policies and firewall rules are made of them.
    """

    place: Place
    """Project, region and labels of the cluster."""
    network: NetworkSection
    """Names in `existing`; the ranges that the subnet has, for network policies and firewall rules."""

    def __post_init__(self) -> None:
        refuse(self, existing_problems("network", self.network, gateway=False))

    @property
    def _names(self) -> ExistingVpc:
        assert self.network.existing is not None
        return self.network.existing

    @property
    def ranges(self) -> NetworkSection:
        """Ranges of nodes, pods and Services."""
        return self.network

    @property
    def vpc_project(self) -> str:
        """Project of the VPC: the host project of a Shared VPC, else the cluster's."""
        return self._names.project or self.place.project

    @property
    def vpc_link(self) -> str:
        """Resource name of the VPC."""
        return f"projects/{self.vpc_project}/global/networks/{self._names.vpc}"

    @property
    def nodes_link(self) -> str:
        """Resource name of the node subnet."""
        return subnet_link(self.vpc_project, self.place.region, self._names.subnet)

    @property
    def pod_range(self) -> str:
        """Name of the secondary range of pods."""
        return self._names.pod_range

    @property
    def service_range(self) -> str:
        """Name of the secondary range of Services."""
        return self._names.service_range


def subnet_link(project: str, region: str, name: str) -> str:
    """Resource name of a subnet."""
    return f"projects/{project}/regions/{region}/subnetworks/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyOnlySubnetArgs:
    """Arguments of `ProxyOnlySubnet`."""

    network: Network | ExistingNetwork
    """The VPC, made or existing; its project, its region, and the pods' range that the proxies may reach."""
    cidr: str = ProxyOnly().cidr
    """Range of the subnet: /23 recommended, /26 minimum, outside the VPC's other ranges."""
    proxied_ports: Sequence[int] = (HTTP_PORT, EPP_EXT_PROC_PORT)
    """TCP ports of pods that the proxies may reach. Default: vLLM's and the endpoint picker's."""


class ProxyOnlySubnet:
    """The subnet of a regional load balancer's proxies, and the firewall rule that lets them reach pods. One per VPC and region.

    Not a component resource: its resources keep the parent of `opts`, so that those of a stack stay where they were. Load balancers must
    be deleted before the subnet: let the cluster's Kubernetes provider depend on `subnet`. Google releases them some minutes after their
    Gateway is gone, and the provider does not repeat a delete that is refused meanwhile: docs/operate.md says how to go on.
    """

    subnet: compute.Subnetwork
    firewall: compute.Firewall

    def __init__(self, name: str, args: ProxyOnlySubnetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        network, place = args.network, args.network.place
        self.subnet = compute.Subnetwork(
            f"{name}-proxy-only",
            name=name_of(place.name_prefix, "vllm-proxy-only"),
            project=network.vpc_project,
            region=place.region,
            network=network.vpc_link,
            ip_cidr_range=args.cidr,
            purpose="REGIONAL_MANAGED_PROXY",
            role="ACTIVE",
            opts=opts,
        )
        self.firewall = compute.Firewall(
            f"{name}-from-proxies",
            name=name_of(place.name_prefix, "vllm-from-proxies"),
            project=network.vpc_project,
            network=network.vpc_link,
            description="Regional load balancer's proxies to vLLM and to the endpoint picker",
            direction="INGRESS",
            source_ranges=[args.cidr],
            # Pods have their own addresses, so the rule admits pods and not nodes.
            destination_ranges=[network.ranges.pod_cidr],
            allows=[compute.FirewallAllowArgs(protocol="tcp", ports=[str(port) for port in args.proxied_ports])],
            opts=opts,
        )
