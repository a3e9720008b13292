"""Minimum address ranges of a GKE Autopilot fleet, and NAT ports of a download."""

from __future__ import annotations

from dataclasses import dataclass

# Source: RFC 1918 and RFC 6598, also used for pods. They contain a VPC, its peers and the networks behind its VPNs.
PRIVATE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
# Source: RFC 6890 and the IANA registry of special-purpose addresses: not on the internet, but possible in a VPC.
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
# Source: RFC 6890 and RFC 4193: unique local (a VPC's, with the metadata server), link-local, and what no
# network has.
PRIVATE_V6 = ("fc00::/7", "fe80::/10")
NOT_INTERNET_V6 = (*PRIVATE_V6, "::/8", "100::/64", "2001:db8::/32", "ff00::/8")
# Source: GKE documentation, "Optimizing IP address allocation": Autopilot runs at most 32 pods on a node; 17 to 32 pods need a /26, two
# addresses per pod.
AUTOPILOT_NODE_POD_PREFIX = 26
# Source: GKE documentation, table of subnet sizes: a /29 holds 4 nodes and a /23 holds 508, so four addresses of a
# primary range are reserved, and /29 is the smallest listed.
RESERVED_SUBNET_ADDRESSES = 4
SMALLEST_SUBNET_PREFIX = 29
# Assumed: nodes without GPUs: Autopilot's system pods in three zones, monitoring, benchmark, weights writer, endpoint picker, and surge
# nodes of an upgrade.
OTHER_NODES = 16
# Assumed: Services of the fleet and of GKE's add-ons, with margin.
SERVICES = 64
# Source: Google Cloud documentation, proxy-only subnets: /26 is the smallest allowed.
PROXY_ONLY_SMALLEST_PREFIX = 26
# Assumed (Cloud NAT documentation, unverified): 64 ports per VM by default, a power of two with dynamic allocation, 65,536 at most.
NAT_DEFAULT_PORTS_PER_VM = 64
NAT_MOST_PORTS_PER_VM = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSizes:
    """Longest prefixes, so smallest ranges, for the fleet."""

    nodes_prefix: int
    pods_prefix: int
    services_prefix: int
    proxy_only_prefix: int | None
    """None without a gateway."""
    nodes: int
    """Nodes that the ranges are sized for."""


def smallest_ranges(*, gpu_nodes: int, services: int = SERVICES, gateway: bool = False) -> RangeSizes:
    """The smallest ranges for `gpu_nodes` nodes with GPUs. Raises ValueError for a negative count."""
    for name, count in (("gpu_nodes", gpu_nodes), ("services", services)):
        if count < 0:
            raise ValueError(f"{name} must be 0 or more, got {count}")
    nodes = gpu_nodes + OTHER_NODES
    return RangeSizes(
        nodes_prefix=min(_prefix_for(nodes + RESERVED_SUBNET_ADDRESSES), SMALLEST_SUBNET_PREFIX),
        pods_prefix=AUTOPILOT_NODE_POD_PREFIX - _bits_for(nodes),
        services_prefix=min(_prefix_for(max(1, services)), SMALLEST_SUBNET_PREFIX),
        proxy_only_prefix=PROXY_ONLY_SMALLEST_PREFIX if gateway else None,
        nodes=nodes,
    )


def nat_ports_per_vm(*, concurrent_connections: int) -> int:
    """Ports per VM for connections to one destination, rounded up to a power of two, at least 64. Raises ValueError above one
    address's ports.
    """
    if concurrent_connections > NAT_MOST_PORTS_PER_VM:
        raise ValueError(
            f"{concurrent_connections} ports exceed the maximum of {NAT_MOST_PORTS_PER_VM} per VM; open fewer connections"
        )
    return max(NAT_DEFAULT_PORTS_PER_VM, 1 << _bits_for(concurrent_connections))


def _prefix_for(addresses: int) -> int:
    return 32 - _bits_for(addresses)


def _bits_for(count: int) -> int:
    return max(0, count - 1).bit_length()
