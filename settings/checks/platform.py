"""Limits of network and cluster. The rules take plain values, so components' arguments use them too."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.ranges import LARGEST_PREFIX, NOT_INTERNET, PROHIBITED_RANGES, smallest_ranges
from settings.checks.maintenance import maintenance_problems
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.sections.cluster import IpEndpoint
    from settings.sections.network import Network
    from settings.stack import Settings

LARGEST_OWN_PREFIX = 8
"""Prefix length of the largest assigned block. Source: IANA, IPv4 address space registry."""


def platform_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the sections network and cluster."""
    yield from _network(settings)
    yield from _cluster(settings)


def _network(settings: Settings) -> Iterator[Finding]:
    network = settings.network
    if network.existing is None:
        yield from keyed(range_problems("network", network, settings.proxy_only_subnet))
    else:
        yield from keyed(existing_problems("network", network, gateway=settings.proxy_only_subnet))
    ranges = dict(_valid(_ranges("network", network, settings.proxy_only_subnet)))
    sizes = smallest_ranges(gpu_nodes=settings.nodes, gateway=settings.proxy_only_subnet)
    smallest = {
        "network.nodeCidr": (sizes.nodes_prefix, "each node uses one address, and Google reserves four"),
        "network.podCidr": (sizes.pods_prefix, f"Autopilot gives each of {sizes.nodes} nodes a /26 for its pods"),
        "network.serviceCidr": (sizes.services_prefix, "GKE's Services need addresses in addition to the fleet's"),
        "network.proxyOnly.cidr": (
            sizes.proxy_only_prefix or 32,
            "Google Cloud requires a proxy-only subnet of /26 or larger and recommends /23",
        ),
    }
    for path, block in ranges.items():
        longest, why = smallest[path]
        if block.prefixlen > longest:
            yield Finding(
                id="range-too-small",
                subject=key(path),
                found=str(block),
                allowed=f"/{longest} or larger for {settings.nodes} server nodes",
                why=why,
                write=str(ipaddress.IPv4Network((int(block.network_address), longest), strict=False))
                if network.existing is None
                else "a subnet whose range is large enough",
            )


def _cluster(settings: Settings) -> Iterator[Finding]:
    yield from keyed(endpoint_problems("cluster.ipEndpoint.authorizedNetworks", settings.cluster.ip_endpoint))
    yield from keyed(maintenance_problems("cluster.maintenance", settings.cluster.maintenance))


def _public(name: str, block: ipaddress.IPv4Network) -> Iterator[Finding]:
    if not any(block.subnet_of(ipaddress.IPv4Network(one)) for one in NOT_INTERNET):
        yield Finding(
            id="range-public",
            subject=name,
            found=str(block),
            allowed="a private range, such as one in 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10",
            why="the addresses belong to others on the internet, whom nodes and pods could then not reach, Google and Docker Hub included",
            write="a private range",
            severity="warning",
        )


def _valid(given: Mapping[str, str]) -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    for path, text in given.items():
        with suppress(ValueError):
            yield path, ipaddress.IPv4Network(text)


def _ranges(path: str, network: Network, proxy_only: bool) -> dict[str, str]:
    ranges = {
        f"{path}.nodeCidr": network.node_cidr,
        f"{path}.podCidr": network.pod_cidr,
        f"{path}.serviceCidr": network.service_cidr,
    }
    return {**ranges, f"{path}.proxyOnly.cidr": network.proxy_only.cidr} if proxy_only else ranges


def range_problems(path: str, network: Network, proxy_only: bool) -> Iterator[Finding]:
    """Invalid, prohibited and overlapping ranges."""
    given = _ranges(path, network, proxy_only)
    ranges = dict(_valid(given))
    for name, text in given.items():
        if name in ranges:
            continue
        try:
            meant = str(ipaddress.IPv4Network(text, strict=False))
        except ValueError:
            meant = "10.0.0.0/20"
        yield Finding(
            id="not-a-range",
            subject=name,
            found=text,
            allowed="an IPv4 range whose host bits are zero",
            why="Google Cloud rejects a range with host bits set",
            write=meant,
        )
    for name, block in ranges.items():
        largest = LARGEST_PREFIX.get(name.removeprefix(f"{path}."), 8)
        if block.prefixlen < largest:
            yield Finding(
                id="range-too-large",
                subject=name,
                found=str(block),
                allowed=f"/{largest} or smaller",
                why="GKE accepts no larger range",
                write=f"{block.network_address}/{largest}",
            )
        yield from _public(name, block)
        if taken := next(
            (range_ for range_ in PROHIBITED_RANGES if block.overlaps(ipaddress.IPv4Network(range_))), None
        ):
            yield Finding(
                id="range-prohibited",
                subject=name,
                found=str(block),
                allowed=f"a range outside {', '.join(PROHIBITED_RANGES)}",
                why=f"{taken} has a reserved meaning, and Google Cloud accepts no subnet in it",
                write="a private range, such as 10.0.0.0/20",
            )
    paths = list(ranges)
    for i, one in enumerate(paths):
        for other in paths[i + 1 :]:
            if ranges[one].overlaps(ranges[other]):
                yield Finding(
                    id="ranges-overlap",
                    subject=other,
                    found=str(ranges[other]),
                    allowed=f"a range outside {ranges[one]} ({one})",
                    why="nodes, pods, Services and load balancer proxies need separate addresses",
                    write="a range after it, e.g. the next block of the same size",
                )


def existing_problems(path: str, network: Network, *, gateway: bool) -> Iterator[Finding]:
    """Problems with the names and ranges of an existing VPC. `gateway`: whether a proxy-only subnet is needed."""
    existing = network.existing
    if existing is None:
        return
    given, has_proxies = network.model_fields_set, existing.proxy_only_subnet is not None
    names = {"nodeCidr": "node_cidr", "podCidr": "pod_cidr", "serviceCidr": "service_cidr"}
    missing = [alias for alias, name in names.items() if name not in given]
    if has_proxies and "cidr" not in network.proxy_only.model_fields_set:
        missing.append("proxyOnly.cidr")
    for name in missing:
        yield Finding(
            id="existing-network-without-range",
            subject=f"{path}.{name}",
            found=None,
            allowed="the range that the existing subnet has",
            why="network policies and firewall rules are made of it; the default is that of a network that is made",
            write=f"{name.rpartition('.')[2]}: as `gcloud compute networks subnets describe "
            f"{existing.proxy_only_subnet if name == 'proxyOnly.cidr' else existing.subnet}` says",
        )
    if not missing:
        yield from range_problems(path, network, gateway or has_proxies)
    if existing.pod_range == existing.service_range:
        yield Finding(
            id="existing-network-one-range",
            subject=f"{path}.existing.serviceRange",
            found=existing.service_range,
            allowed="another secondary range than podRange",
            why="GKE gives pods and Services separate ranges",
            write="the name of the Services' range",
        )
    if has_proxies and network.proxy_only.enabled is not None:
        yield Finding(
            id="existing-network-proxies-twice",
            subject=f"{path}.proxyOnly.enabled",
            found=network.proxy_only.enabled,
            allowed="left out with existing.proxyOnlySubnet",
            why="a VPC has one active proxy-only subnet in a region, and this one exists",
            write=f"remove {path}.proxyOnly.enabled, or {path}.existing.proxyOnlySubnet",
        )


def endpoint_problems(path: str, endpoint: IpEndpoint) -> Iterator[Finding]:
    """Problems with a control plane's IP endpoint that is open to the internet."""
    if endpoint.enabled and not endpoint.authorized_networks:
        yield Finding(
            id="open-control-plane",
            subject=path,
            found=[],
            allowed="one or more named ranges",
            why="an IP endpoint without authorized networks is open to the internet; the DNS endpoint always exists",
            write='[{name: office, cidr: "203.0.113.0/24"}], or ipEndpoint: {enabled: false}',
        )
    cidrs = [network.cidr for network in endpoint.authorized_networks]
    for i, cidr in enumerate(cidrs):
        if cidr in cidrs[:i]:
            yield Finding(
                id="authorized-network-twice",
                subject=f"{path}[{i}].cidr",
                found=cidr,
                allowed="each range once",
                why="GKE rejects a list that has a range twice",
                write=f"remove {path.rpartition('.')[2]}[{i}]",
            )
    blocks = dict(_valid({network.cidr: network.cidr for network in endpoint.authorized_networks}))
    together = list(ipaddress.collapse_addresses(blocks.values()))
    for i, network in enumerate(endpoint.authorized_networks):
        # Adjacent ranges count together: 0.0.0.0/1 and 128.0.0.0/1 are the whole internet.
        block = blocks.get(network.cidr)
        if block is None or any(block.subnet_of(one) and one.prefixlen < LARGEST_OWN_PREFIX for one in together):
            yield Finding(
                id="open-control-plane",
                subject=f"{path}[{i}].cidr",
                found=network.cidr,
                allowed=f"your range, /{LARGEST_OWN_PREFIX} or smaller together with adjacent ranges",
                why="it limits who can reach the control plane, and no organization owns a larger range",
                write='"203.0.113.0/24"',
            )


def keyed(problems: Iterable[Finding]) -> Iterator[Finding]:
    """The problems with the stack file's full keys as paths."""
    for problem in problems:
        yield replace(problem, subject=key(problem.subject))
