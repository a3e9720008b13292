"""List prices of the GPU nodes that pods request.

A stack's cost uses its region's prices. A single resource has that of its pods' zone, else `gcp:region`; with neither, its cost is a lower
bound: the lowest price of all regions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from facts import prices
from facts.prices import Mode, Price
from objects import of_kind, own_name
from pods import Pod, pods
from rule import Resource, dig, listed
from tokens import CLUSTER, FLEX_START, PROVISIONING, RESERVATION_NAME, SPOT, ZONE
from values import UnknownValueError

_WAYS: Final[dict[Mode, str]] = {
    "on-demand": "on demand",
    "spot": "Spot",
    "flex-start": "flex-start",
    "cud-1y": "reserved, 1-year commitment",
}
_ZONE: Final = re.compile(r"([a-z]+-[a-z]+\d+)(?:-[a-z])?")


def node_price(pod: Pod, region: str, resources: Sequence[Resource] = ()) -> Price | None:
    """List price in USD an hour of such a pod's node in that region; None where none is published for its provisioning mode.

    A reservation has no price of its own and counts as a one-year commitment. `resources`: where its ComputeClass may be.
    """
    way = _way(pod) or _way_of_class(pod, resources)
    return None if way is None or pod.machine is None else prices.find(pod.machine.type, region, way)


def region_of(resources: Sequence[Resource]) -> str:
    """Region of a stack's cluster or, in a stack on another's cluster, of its disks; empty where unknown."""
    for place in _places(resources):
        if found := _ZONE.fullmatch(str(place or "")):
            return found[1]
    return ""


def with_region(resources: Sequence[Resource], configured: str = "") -> list[Resource]:
    """A stack's resources with its region, where that is known: of its cluster or disks, else of its configuration."""
    try:
        region = region_of(resources) or configured
    except UnknownValueError:
        return list(resources)
    # What is parsed refers to its resource.
    return [replace(resource, region=region, parsed={}) for resource in resources]


def _places(resources: Sequence[Resource]) -> Iterator[object]:
    for resource in resources:
        if resource.type == CLUSTER:
            yield dig(resource.props, "location")
    for resource in resources:
        yield from _zones_of_class(resource)
    for resource in resources:
        for pod in pods(resource):
            yield pod.selector(ZONE)


def _zones_of_class(resource: Resource) -> Iterator[object]:
    if resource.is_kubernetes and resource.kind == "StorageClass":
        for term in listed(dig(resource.props, "allowedTopologies")):
            for expression in listed(dig(term, "matchLabelExpressions")):
                yield from listed(dig(expression, "values"))


def _way(pod: Pod) -> Mode | None:
    if pod.machine is None:
        return None
    if is_spot(pod):
        return "spot"
    if pod.selector(FLEX_START) == "true":
        return "flex-start"
    if pod.selector(RESERVATION_NAME):
        return "cud-1y"
    return "on-demand" if "on-demand" in pod.machine.ways and pod.compute_class is None else None


def _way_of_class(pod: Pod, resources: Sequence[Resource]) -> Mode | None:
    """The provisioning mode of a ComputeClass that has only one."""
    ways: set[Mode | None] = set()
    for resource in of_kind(resources, "ComputeClass"):
        if pod.compute_class is not None and own_name(resource) == pod.compute_class:
            for priority in listed(dig(resource.props, "spec", "priorities")):
                flex = dig(priority, "flexStart", "enabled") is True
                ways.add("spot" if dig(priority, "spot") is True else "flex-start" if flex else None)
    return ways.pop() if len(ways) == 1 else None


def is_spot(pod: Pod) -> bool:
    """Whether these pods select Spot nodes."""
    return pod.selector(SPOT) == "true" or pod.selector(PROVISIONING) == "spot"


def at_stake(resource: Resource) -> str:
    """Formatted cost of this object's GPU nodes; empty without GPU nodes.

    Of one node where a scaler decides on replicas: Pulumi then takes their number from the state, and a preview without it cannot.
    """
    scaled = "spec.replicas" in resource.ignore_changes
    parts = [format_cost(pod, 1 if scaled else pod.gpu_nodes) for pod in pods(resource) if pod.gpus and pod.gpu_nodes]
    return "; ".join(parts)


def format_cost(pod: Pod, nodes: int) -> str:
    """Cost of `nodes` nodes for such pods in the stack's region; where that or its price is unknown, the lowest of all regions.

    Never more than the stack pays at list prices: a reader holds it against the bill.
    """
    way, machine = _way(pod), pod.machine
    listed_prices = () if way is None or machine is None else prices.published(machine.type, way)
    kind = f"{'GPU' if machine is None else machine.family.upper()} node{'' if nodes == 1 else 's'}"
    if way is None and pod.compute_class is not None:
        return f"{nodes} {kind}, whose price depends on what ComputeClass {pod.compute_class} chooses"
    if way is None or not listed_prices:
        return f"{nodes} {kind}, no published price"
    if price := node_price(pod, _region(pod)):
        return f"${price.usd * nodes:,.2f} an hour ({nodes} {kind}, {_WAYS[way]}, {origin(price)})"
    lowest = listed_prices[0]
    return f"at least ${lowest.usd * nodes:,.2f} an hour ({nodes} {kind}, {_WAYS[way]}, {origin(lowest)}, the lowest)"


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Two different sums in dollars, with cents or as many digits as their difference needs."""
    digits = next((most for most in range(2, 12) if f"{one:.{most}f}" != f"{other:.{most}f}"), 2)
    return f"${one:,.{digits}f}", f"${other:,.{digits}f}"


def _region(pod: Pod) -> str:
    try:
        return region_of([pod.resource]) or pod.resource.region
    except UnknownValueError:
        return pod.resource.region


def origin(price: Price) -> str:
    """Region and date of a list price: "list price of us-south1, 2026-07-30"."""
    return f"list price of {price.region}, {price.date}"
