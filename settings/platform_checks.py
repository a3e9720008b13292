"""Limits of network and cluster: ranges, NAT ports, the control plane's doors, the maintenance window."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from settings.problems import Problem
from settings.section import key

if TYPE_CHECKING:
    from settings.settings import Settings

_DAYS = re.compile(r"BYDAY=([A-Z,]+)")


def platform_problems(settings: Settings) -> Iterator[Problem]:
    """Every limit of Google Cloud's network and of GKE that these settings break."""
    yield from _network(settings)
    yield from _cluster(settings)


def _network(settings: Settings) -> Iterator[Problem]:
    from planner import network_sizing

    network = settings.network
    given = {
        "network.nodeCidr": network.node_cidr,
        "network.podCidr": network.pod_cidr,
        "network.serviceCidr": network.service_cidr,
    }
    if settings.proxy_only_subnet:
        given["network.proxyOnly.cidr"] = network.proxy_only.cidr
    ranges: dict[str, ipaddress.IPv4Network] = {}
    for path, text in given.items():
        try:
            ranges[path] = ipaddress.IPv4Network(text)
        except ValueError:
            try:
                meant = str(ipaddress.IPv4Network(text, strict=False))
            except ValueError:
                meant = "10.0.0.0/20"
            yield Problem(
                id="not-a-range",
                path=key(path),
                value=text,
                allowed="an IPv4 range whose host bits are zero",
                why="Google Cloud refuses a range that does not begin at its own network address",
                write=meant,
            )
    paths = list(ranges)
    for i, one in enumerate(paths):
        for other in paths[i + 1 :]:
            if ranges[one].overlaps(ranges[other]):
                yield Problem(
                    id="ranges-overlap",
                    path=key(other),
                    value=str(ranges[other]),
                    allowed=f"a range outside {ranges[one]} ({one})",
                    why="nodes, pods, Services and load-balancer proxies each need addresses of their own",
                    write="a range that begins after it, e.g. the next block of the same size",
                )
    sizes = network_sizing.smallest_ranges(a4_nodes=settings.replicas, gateway=settings.proxy_only_subnet)
    smallest = {
        "network.nodeCidr": (sizes.nodes_prefix, "every node takes one address, and Google reserves four"),
        "network.podCidr": (sizes.pods_prefix, f"Autopilot gives each of {sizes.nodes} nodes a /26 for its pods"),
        "network.serviceCidr": (sizes.services_prefix, "GKE's own Services need addresses beside the fleet's"),
        "network.proxyOnly.cidr": (
            sizes.proxy_only_prefix or 32,
            "Google refuses a proxy-only subnet below /26; /23 is recommended",
        ),
    }
    for path, block in ranges.items():
        longest, why = smallest[path]
        if block.prefixlen > longest:
            yield Problem(
                id="range-too-small",
                path=key(path),
                value=str(block),
                allowed=f"/{longest} or larger for {settings.replicas} server nodes",
                why=why,
                write=str(ipaddress.IPv4Network((int(block.network_address), longest), strict=False)),
            )
    nat = network.nat
    for path, ports in (
        ("network.nat.minPortsPerVm", nat.min_ports_per_vm),
        ("network.nat.maxPortsPerVm", nat.max_ports_per_vm),
    ):
        if ports & (ports - 1):
            yield Problem(
                id="nat-ports-power-of-two",
                path=key(path),
                value=ports,
                allowed="a power of two",
                why="Cloud NAT's dynamic port allocation takes no other number",
                write=str(1 << (ports.bit_length() - 1)),
            )
    if nat.max_ports_per_vm <= nat.min_ports_per_vm:
        yield Problem(
            id="nat-ports-order",
            path=key("network.nat.maxPortsPerVm"),
            value=nat.max_ports_per_vm,
            allowed=f"more than minPortsPerVm ({nat.min_ports_per_vm})",
            why="dynamic port allocation grows from the one to the other",
            write=str(nat.min_ports_per_vm * 2),
        )


def _cluster(settings: Settings) -> Iterator[Problem]:
    cluster = settings.cluster
    endpoint = cluster.ip_endpoint
    if endpoint.enabled and not endpoint.authorized_networks:
        yield Problem(
            id="open-control-plane",
            path=key("cluster.ipEndpoint.authorizedNetworks"),
            value=[],
            allowed="one named range or more",
            why="an IP endpoint without named networks answers the whole internet; the DNS endpoint is there anyway",
            write='[{name: office, cidr: "203.0.113.0/24"}], or ipEndpoint: {enabled: false}',
        )
    for i, network in enumerate(endpoint.authorized_networks):
        try:
            block = ipaddress.IPv4Network(network.cidr)
        except ValueError:
            block = None
        if block is None or block.prefixlen == 0:
            yield Problem(
                id="open-control-plane",
                path=key(f"cluster.ipEndpoint.authorizedNetworks[{i}].cidr"),
                value=network.cidr,
                allowed="a range of yours; 0.0.0.0/0 is everybody's",
                why="it decides who may try to log in to the control plane",
                write='"203.0.113.0/24"',
            )
    window = cluster.maintenance
    hours = (moment(window.end_time) - moment(window.start_time)).total_seconds() / 3600
    days = _DAYS.search(window.recurrence)
    per_week = len(days.group(1).split(",")) if days else 7 if "FREQ=DAILY" in window.recurrence else 1
    total = hours * per_week * 32 / 7
    if hours < 4 or total < 48:
        yield Problem(
            id="maintenance-too-short",
            path=key("cluster.maintenance"),
            value=f"{hours:g} h x {per_week} a week",
            allowed="windows of 4 hours or more, 48 hours or more in any 32 days",
            why="GKE refuses a policy that leaves it less room for upgrades",
            write='{startTime: "2026-01-03T02:00:00Z", endTime: "2026-01-03T10:00:00Z", recurrence: "FREQ=WEEKLY;BYDAY=SA,SU"}',
        )


def moment(text: str) -> datetime:
    """The moment of an RFC 3339 text in UTC; year 1 where the text is none."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
