"""Limits of network, cluster and calendar window. The rules take plain values: the components' arguments ask them, too."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from settings.problems import Problem
from settings.sections.capacity import window_total_usd
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.sections.capacity import Calendar, CalendarRequest
    from settings.sections.cluster import IpEndpoint, Maintenance
    from settings.sections.network import Nat, Network
    from settings.stack import Settings

CALENDAR_TOTAL_TOLERANCE_USD = 1.0
_DAYS = re.compile(r"BYDAY=([A-Z,]+)")


def platform_problems(settings: Settings) -> Iterator[Problem]:
    """Every limit of Google Cloud's network and of GKE that these settings break."""
    yield from _network(settings)
    yield from _cluster(settings)


def _network(settings: Settings) -> Iterator[Problem]:
    from facts.ranges import smallest_ranges

    network = settings.network
    yield from keyed(range_problems("network", network, settings.proxy_only_subnet))
    ranges = dict(_valid(_ranges("network", network, settings.proxy_only_subnet)))
    sizes = smallest_ranges(a4_nodes=settings.replicas, gateway=settings.proxy_only_subnet)
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
    yield from keyed(nat_problems("network.nat", network.nat))


def _cluster(settings: Settings) -> Iterator[Problem]:
    yield from keyed(endpoint_problems("cluster.ipEndpoint.authorizedNetworks", settings.cluster.ip_endpoint))
    yield from keyed(maintenance_problems("cluster.maintenance", settings.cluster.maintenance))


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


def range_problems(path: str, network: Network, proxy_only: bool) -> Iterator[Problem]:
    """Texts that are no ranges, and ranges that overlap; that of the proxy-only subnet counts where there is one."""
    given = _ranges(path, network, proxy_only)
    ranges = dict(_valid(given))
    for name, text in given.items():
        if name in ranges:
            continue
        try:
            meant = str(ipaddress.IPv4Network(text, strict=False))
        except ValueError:
            meant = "10.0.0.0/20"
        yield Problem(
            id="not-a-range",
            path=name,
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
                    path=other,
                    value=str(ranges[other]),
                    allowed=f"a range outside {ranges[one]} ({one})",
                    why="nodes, pods, Services and load-balancer proxies each need addresses of their own",
                    write="a range that begins after it, e.g. the next block of the same size",
                )


def nat_problems(path: str, nat: Nat) -> Iterator[Problem]:
    """What Cloud NAT holds against the fewest and the most ports of a node."""
    low, high = (f"{path}.minPortsPerVm", nat.min_ports_per_vm), (f"{path}.maxPortsPerVm", nat.max_ports_per_vm)
    for name, ports in (low, high):
        if ports & (ports - 1):
            yield Problem(
                id="nat-ports-power-of-two",
                path=name,
                value=ports,
                allowed="a power of two",
                why="Cloud NAT's dynamic port allocation takes no other number",
                write=str(1 << (ports.bit_length() - 1)),
            )
    if high[1] <= low[1]:
        yield Problem(
            id="nat-ports-order",
            path=high[0],
            value=high[1],
            allowed=f"more than {low[0].rpartition('.')[2]} ({low[1]})",
            why="dynamic port allocation grows from the one to the other",
            write=str(low[1] * 2),
        )


def endpoint_problems(path: str, endpoint: IpEndpoint) -> Iterator[Problem]:
    """Ways in which the control plane's IP endpoint would answer everybody."""
    if endpoint.enabled and not endpoint.authorized_networks:
        yield Problem(
            id="open-control-plane",
            path=path,
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
                path=f"{path}[{i}].cidr",
                value=network.cidr,
                allowed="a range of yours; 0.0.0.0/0 is everybody's",
                why="it decides who may try to log in to the control plane",
                write='"203.0.113.0/24"',
            )


def maintenance_problems(path: str, window: Maintenance) -> Iterator[Problem]:
    """What GKE holds against a maintenance window."""
    hours = (moment(window.end_time) - moment(window.start_time)).total_seconds() / 3600
    days = _DAYS.search(window.recurrence)
    per_week = len(days.group(1).split(",")) if days else 7 if "FREQ=DAILY" in window.recurrence else 1
    total = hours * per_week * 32 / 7
    if hours < 4 or total < 48:
        yield Problem(
            id="maintenance-too-short",
            path=path,
            value=f"{hours:g} h x {per_week} a week",
            allowed="windows of 4 hours or more, 48 hours or more in any 32 days",
            why="GKE refuses a policy that leaves it less room for upgrades",
            write='{startTime: "2026-01-03T02:00:00Z", endTime: "2026-01-03T10:00:00Z", recurrence: "FREQ=WEEKLY;BYDAY=SA,SU"}',
        )


def window_problems(path: str, calendar: Calendar, window: CalendarRequest) -> Iterator[Problem]:
    """What is wrong with a window of calendar capacity: its start, and the total that is typed for it."""
    if moment(window.start_time).year == 1:
        yield Problem(
            id="not-a-moment",
            path=f"{path}.create.startTime",
            value=window.start_time,
            allowed="a real moment in UTC",
            why="it is when you begin to pay for the window",
            write='"2027-01-04T06:00:00Z"',
        )
    typed, of_a_node = window.total_usd, calendar.usd_per_node_hour
    if typed is None:
        return
    if of_a_node is None:
        yield Problem(
            id="calendar-without-price",
            path=f"{path}.usdPerNodeHour",
            value=None,
            allowed="Google's price of one A4 node-hour in calendar mode, from your quote",
            why="the typed total can only be checked against a price, and what you pay is your quote, not a list price",
            write="usdPerNodeHour: 00.00",
        )
        return
    right = window_total_usd(window.nodes, window.duration_days, of_a_node)
    if abs(right - typed) > CALENDAR_TOTAL_TOLERANCE_USD:
        yield Problem(
            id="calendar-total-wrong",
            path=f"{path}.create.totalUsd",
            value=typed,
            allowed=f"{right:.2f}, to the dollar",
            why=f"{window.nodes} nodes x {window.duration_days} days x 24 h x ${of_a_node:g}: nobody should submit what they misread",
            write=f"totalUsd: {right:.2f}",
        )


def keyed(problems: Iterable[Problem]) -> Iterator[Problem]:
    """The problems, with their paths as the stack file spells them."""
    for problem in problems:
        yield replace(problem, path=key(problem.path))


def moment(text: str) -> datetime:
    """The moment of an RFC 3339 text in UTC; year 1 where the text is none."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
