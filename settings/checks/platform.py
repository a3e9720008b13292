"""Limits of network and cluster. The rules take plain values, so components' arguments use them too."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.ranges import NOT_INTERNET, smallest_ranges
from settings.row import Row

if TYPE_CHECKING:
    from settings.sections.cluster import IpEndpoint
    from settings.sections.network import Network
    from settings.stack import Settings

LARGEST_OWN_PREFIX = 8
"""Prefix length of the largest assigned block. Source: IANA, IPv4 address space registry."""
_SMALL = Row(
    "range-too-small",
    "each node uses an address and a /26 for its pods, Services and load balancers' proxies have ranges of their own, and a range "
    "that is full shows only as nodes that do not come",
    "a range of that size, at an address that is free",
)
_PUBLIC = Row(
    "range-public",
    "the addresses belong to others on the internet, whom nodes and pods could then not reach, Google and Docker Hub included",
    "a private range",
    "warning",
)
_OVERLAP = Row(
    "ranges-overlap",
    "nodes, pods, Services and load balancer proxies have separate addresses, and network policies are made of these ranges",
    "the next block of the same size; of an existing network its own ranges",
)
_NO_RANGE = Row(
    "existing-network-without-range",
    "network policies and firewall rules are made of it; the default is that of a network that is made",
    "the range that `gcloud compute networks subnets describe SUBNET` says",
)
_OPEN = Row(
    "open-control-plane",
    "an IP endpoint is open to the authorized networks, and without any to the internet; the DNS endpoint always exists",
    '[{name: office, cidr: "203.0.113.0/24"}], or ipEndpoint: {enabled: false}',
)


def platform_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the sections network and cluster."""
    network, gateway = settings.network, settings.proxy_only_subnet
    if network.existing is None:
        yield from _range_problems(network, gateway)
    else:
        yield from _existing_problems(network, gateway=gateway)
    sizes = smallest_ranges(gpu_nodes=settings.nodes, gateway=gateway)
    longest = {
        "network.nodeCidr": sizes.nodes_prefix,
        "network.podCidr": sizes.pods_prefix,
        "network.serviceCidr": sizes.services_prefix,
        "network.proxyOnly.cidr": sizes.proxy_only_prefix or 32,
    }
    for path, block in _valid(_ranges(network, gateway)):
        if block.prefixlen > longest[path]:
            yield _SMALL(path, str(block), f"/{longest[path]} or larger for {settings.nodes} server nodes")
    yield from _endpoint_problems(settings.cluster.ip_endpoint)


def _valid(given: Mapping[str, str]) -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    for path, text in given.items():
        with suppress(ValueError):
            yield path, ipaddress.IPv4Network(text)


def _ranges(network: Network, proxy_only: bool) -> dict[str, str]:
    ranges = {
        "network.nodeCidr": network.node_cidr,
        "network.podCidr": network.pod_cidr,
        "network.serviceCidr": network.service_cidr,
    }
    return {**ranges, "network.proxyOnly.cidr": network.proxy_only.cidr} if proxy_only else ranges


def _range_problems(network: Network, proxy_only: bool) -> Iterator[Finding]:
    """Ranges of addresses that belong to others, or to one another."""
    blocks = list(_valid(_ranges(network, proxy_only)))
    for (one, first), (other, second) in combinations(blocks, 2):
        if first.overlaps(second):
            yield _OVERLAP(other, str(second), f"a range outside {first} ({one})")
    for name, block in blocks:
        if not any(block.subnet_of(ipaddress.IPv4Network(one)) for one in NOT_INTERNET):
            yield _PUBLIC(name, str(block), "one in 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10")


def _existing_problems(network: Network, *, gateway: bool) -> Iterator[Finding]:
    """Ranges of an existing VPC that are left out. `gateway`: whether a proxy-only subnet is needed."""
    existing = network.existing
    if existing is None:
        return
    given, has_proxies = network.model_fields_set, existing.proxy_only_subnet is not None
    names = {"nodeCidr": "node_cidr", "podCidr": "pod_cidr", "serviceCidr": "service_cidr"}
    missing = [alias for alias, name in names.items() if name not in given]
    if has_proxies and "cidr" not in network.proxy_only.model_fields_set:
        missing.append("proxyOnly.cidr")
    for name in missing:
        subnet = existing.proxy_only_subnet if name == "proxyOnly.cidr" else existing.subnet
        yield _NO_RANGE(f"network.{name}", None, f"the range of the existing subnet {subnet}")
    if not missing:
        yield from _range_problems(network, gateway or has_proxies)


def _endpoint_problems(endpoint: IpEndpoint) -> Iterator[Finding]:
    """Problems with a control plane's IP endpoint that is open to the internet."""
    path = "cluster.ipEndpoint.authorizedNetworks"
    if endpoint.enabled and not endpoint.authorized_networks:
        yield _OPEN(path, [], "one or more named ranges")
    blocks = dict(_valid({network.cidr: network.cidr for network in endpoint.authorized_networks}))
    together = list(ipaddress.collapse_addresses(blocks.values()))
    for i, network in enumerate(endpoint.authorized_networks):
        # Adjacent ranges count together: 0.0.0.0/1 and 128.0.0.0/1 are the whole internet.
        block = blocks.get(network.cidr)
        if block is None or any(block.subnet_of(one) and one.prefixlen < LARGEST_OWN_PREFIX for one in together):
            allowed = f"your range, /{LARGEST_OWN_PREFIX} or smaller together with adjacent ranges"
            yield _OPEN(f"{path}[{i}].cidr", network.cidr, allowed)
