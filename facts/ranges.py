"""How large the address ranges of a GKE Autopilot fleet must be, and how many NAT ports a download needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

# Source: RFC 1918 and RFC 6598, which clusters short of addresses take their pods from. A VPC, its peers and the networks behind its
# VPNs are in here.
PRIVATE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
# Source: VPC documentation, "Prohibited IPv4 subnet ranges": this host, loopback, link-local (the metadata server), multicast, the limited
# broadcast address, and the addresses of Private Google Access.
PROHIBITED_RANGES = (
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "199.36.153.4/30",
    "199.36.153.8/30",
)
# Source: RFC 6890 and the IANA registry of special-purpose addresses: nobody on the internet has one of these, but a VPC may.
NOT_INTERNET = (
    *PRIVATE_RANGES,
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
# Source: GKE documentation, "Optimizing IP address allocation": Autopilot runs at most 32 pods on a node; 17 to 32 pods
# take a /26 of the pod range, twice as many addresses as pods.
AUTOPILOT_PODS_PER_NODE = 32
AUTOPILOT_NODE_POD_PREFIX = 26
# Source: GKE documentation, table of subnet sizes: a /29 holds 4 nodes and a /23 holds 508, so four addresses of a
# primary range are reserved, and /29 is the smallest listed.
RESERVED_SUBNET_ADDRESSES = 4
SMALLEST_SUBNET_PREFIX = 29
# Assumed: nodes beside those with GPUs: Autopilot's system pods over three zones, monitoring, benchmark, weights writer,
# endpoint picker, and room for an upgrade to bring new nodes before old ones go.
OTHER_NODES = 16
# Assumed: Services of the fleet, of GKE's own add-ons, and headroom; far more than a fleet creates.
SERVICES = 64
# Source: Google Cloud documentation, proxy-only subnets: /23 recommended, /26 the smallest allowed.
PROXY_ONLY_RECOMMENDED_PREFIX = 23
PROXY_ONLY_SMALLEST_PREFIX = 26
# Assumed: recalled from the Cloud NAT documentation, not re-read: 64 ports a VM unless set, a power of two with dynamic
# allocation, 65,536 at most.
NAT_DEFAULT_PORTS_PER_VM = 64
NAT_MOST_PORTS_PER_VM = 65_536
# Assumed: recalled likewise: a port serves the same destination again 120 s after its connection closed.
NAT_PORT_REUSE_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSizes:
    """Longest prefix, so smallest range, that holds the fleet. A range with a smaller number is larger."""

    nodes_prefix: int
    pods_prefix: int
    services_prefix: int
    proxy_only_prefix: int | None
    """None where no gateway needs one."""
    nodes: int
    """Nodes the ranges are sized for."""


def smallest_ranges(
    *, gpu_nodes: int, other_nodes: int = OTHER_NODES, services: int = SERVICES, gateway: bool = False
) -> RangeSizes:
    """The smallest ranges that hold a fleet of `gpu_nodes` nodes with GPUs. Raises ValueError on a negative count."""
    for name, count in (("gpu_nodes", gpu_nodes), ("other_nodes", other_nodes), ("services", services)):
        if count < 0:
            raise ValueError(f"{name} must be 0 or more, got {count}")
    nodes = max(1, gpu_nodes + other_nodes)
    return RangeSizes(
        nodes_prefix=min(_prefix_for(nodes + RESERVED_SUBNET_ADDRESSES), SMALLEST_SUBNET_PREFIX),
        pods_prefix=AUTOPILOT_NODE_POD_PREFIX - _bits_for(nodes),
        services_prefix=min(_prefix_for(max(1, services)), SMALLEST_SUBNET_PREFIX),
        proxy_only_prefix=PROXY_ONLY_SMALLEST_PREFIX if gateway else None,
        nodes=nodes,
    )


def nodes_a_pod_range_holds(prefix: int) -> int:
    """Autopilot nodes that a pod range of this prefix length holds."""
    return 1 << AUTOPILOT_NODE_POD_PREFIX - prefix if prefix <= AUTOPILOT_NODE_POD_PREFIX else 0


def nodes_a_subnet_holds(prefix: int) -> int:
    """Nodes that a primary subnet range of this prefix length holds."""
    return max(0, (1 << 32 - prefix) - RESERVED_SUBNET_ADDRESSES)


def nat_ports_per_vm(*, concurrent_connections: int, connections_per_s: float = 0.0) -> int:
    """Ports a VM needs for that many connections to one destination, rounded up to a power of two, at least 64.

    `connections_per_s` counts connections that open and close: each keeps its port for two minutes more. A Git LFS
    download opens one connection for each file and a few to the server that names them. Raises ValueError above what
    one address offers.
    """
    needed = concurrent_connections + connections_per_s * NAT_PORT_REUSE_S
    if needed > NAT_MOST_PORTS_PER_VM:
        raise ValueError(
            f"{needed:.0f} ports are more than the {NAT_MOST_PORTS_PER_VM} a VM can have; open fewer connections"
        )
    return max(NAT_DEFAULT_PORTS_PER_VM, 1 << _bits_for(ceil(needed)))


def _prefix_for(addresses: int) -> int:
    return 32 - _bits_for(addresses)


def _bits_for(count: int) -> int:
    return max(0, count - 1).bit_length()
