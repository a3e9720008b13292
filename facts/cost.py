"""What a fleet costs an hour, item by item, and what goes on costing when it is paused or destroyed.

Prices come from facts/data/prices.yaml. A price nobody could date is unknown: its item stays on the bill without an
amount, and every total is then "at least". Nothing unknown is counted as zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from facts import ledger
from facts.ledger import Source

# Source: Google Cloud price pages convert a monthly price to an hourly one with 730 hours.
HOURS_PER_MONTH = 730
SECONDS_PER_HOUR = 3600

CAPACITY_KEYS = ("spot", "cud-1y", "flex-start", "calendar", "reservation", "ladder")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsShape:
    """The volume that holds the weights."""

    size_gib: int
    throughput_mibps: int
    copies: int = 1
    """Volumes that servers read, one per zone."""
    writer_throughput_mibps: int = 0
    """Throughput of the volume that the download was written to, of the same size; 0 where there is none."""
    image_gib: int = 0
    """GiB of the disk image the volumes are made from; 0 where there is none."""
    image_retained: bool = True
    """Whether the image outlives the stack. The volumes go with their claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """What a stack pays for, in plain numbers. Raises ValueError on a number that cannot be."""

    nodes: int
    """A4 nodes that run."""
    capacity: str
    """A key of the `capacity` section of prices.yaml."""
    committed_nodes: int | None = None
    """Nodes a commitment or reservation is paid for; None takes `nodes`. Only counts for committed capacity."""
    usd_per_node_hour: float | None = None
    """The price the stack file states for a node-hour; it replaces the list price."""
    cluster: bool = True
    """False where the cluster belongs to another stack."""
    weights: WeightsShape | None = None
    benchmark_machine_type: str | None = None
    """Machine of the benchmark clients' nodes; None where no benchmark runs."""
    benchmark_machines: int = 1
    """How many of these machines run while it is measured."""
    epp_vcpus: int = 0
    """vCPUs of the endpoint picker; 0 without a gateway."""
    epp_machine_type: str | None = None
    """Machine of the endpoint picker's own node; None where it runs as an ordinary pod."""
    load_balancers: int = 0
    """Internal forwarding rules: the gateway's and an internal load balancer's."""
    nat_gateways: int = 0
    registry_gib: float = 0
    """GiB that the image repository keeps."""
    bucket_gib: float = 0
    """GiB that the results bucket keeps."""
    bucket_retained: bool = True
    stated_prices: Mapping[str, float] = field(default_factory=dict)
    """USD per unit that the stack file states, by item id; each replaces the list price, known or not."""

    def __post_init__(self) -> None:
        if self.capacity not in CAPACITY_KEYS:
            raise ValueError(f"capacity must be one of {', '.join(CAPACITY_KEYS)}, got {self.capacity!r}")
        for name in (
            "nodes",
            "benchmark_machines",
            "epp_vcpus",
            "load_balancers",
            "nat_gateways",
            "registry_gib",
            "bucket_gib",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if self.committed_nodes is not None and self.committed_nodes < 0:
            raise ValueError(f"committed_nodes must be 0 or more, got {self.committed_nodes}")
        if self.usd_per_node_hour is not None and not 0 <= self.usd_per_node_hour < inf:
            raise ValueError(f"usd_per_node_hour must be 0 or more, got {self.usd_per_node_hour}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineItem:
    """One line of a bill."""

    id: str
    name: str
    quantity: float
    unit: str
    """What the price is for, for example "node-hour" or "GiB-month"."""
    unit_price_usd: float | None
    """None where no dated price is known; `reason` then says why."""
    paid_at_zero_replicas: bool
    """Whether the line stays when the fleet is paused."""
    paid_after_destroy: bool = False
    """Whether the line stays when the stack is destroyed."""
    reason: str | None = None
    source: Source | None = None
    note: str | None = None

    @property
    def usd_per_hour(self) -> float | None:
        """Dollars an hour; None where the price is unknown."""
        if self.unit_price_usd is None:
            return None
        hours = HOURS_PER_MONTH if self.unit.endswith("-month") else 1
        return self.quantity * self.unit_price_usd / hours

    @property
    def usd_per_month(self) -> float | None:
        """Dollars a month of 730 hours; None where the price is unknown."""
        hourly = self.usd_per_hour
        return None if hourly is None else hourly * HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a fleet costs. Every amount is a lower bound where `unknown` names items."""

    items: tuple[LineItem, ...]
    excluded: tuple[str, ...]
    """Costs that follow traffic and are on no line."""

    @property
    def usd_per_hour_known(self) -> float:
        """Dollars an hour of all items with a known price."""
        return _sum_known(self.items)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of items without a known price."""
        return tuple(item.name for item in self.items if item.usd_per_hour is None)

    @property
    def residual_items(self) -> tuple[LineItem, ...]:
        """What is paid on at replicas 0."""
        return tuple(item for item in self.items if item.paid_at_zero_replicas)

    @property
    def residual_usd_per_hour(self) -> float:
        """Dollars an hour at replicas 0, of the items with a known price."""
        return _sum_known(self.residual_items)

    @property
    def after_destroy_items(self) -> tuple[LineItem, ...]:
        """What is paid on after the stack is destroyed: what it retains."""
        return tuple(item for item in self.items if item.paid_after_destroy)

    @property
    def after_destroy_usd_per_month(self) -> float:
        """Dollars a month after the stack is destroyed, of the items with a known price."""
        return _sum_known(self.after_destroy_items) * HOURS_PER_MONTH

    def usd_per_million_tokens(self, tokens_per_s: float) -> float | None:
        """Dollars per million tokens at that rate, all known items; None where the nodes' price is unknown.

        Give it total or output tokens a second: the answer is per million of those.
        """
        nodes = next(item for item in self.items if item.id == "nodes")
        if nodes.usd_per_hour is None or tokens_per_s <= 0:
            return None
        return self.usd_per_hour_known / (tokens_per_s * SECONDS_PER_HOUR) * 1e6

    def total_in_words(self) -> str:
        """The hourly total as a reader should see it: "$391.32 an hour", or "at least ..." where prices are unknown."""
        amount = f"${self.usd_per_hour_known:,.2f} an hour"
        return f"at least {amount} ({_prices_unknown(len(self.unknown))})" if self.unknown else amount


def bill(shape: FleetShape) -> Bill:
    """The bill of a fleet."""
    items = tuple(_as_stated(item, shape.stated_prices) for item in _items(shape))
    return Bill(items=items, excluded=tuple(ledger.load("prices")["excluded"]))


def priced_items() -> dict[str, str]:
    """Units of the items whose price a stack file may state, by item id."""
    return {id_: str(price["unit"]) for id_, price in ledger.section("prices", "items").items()}


def capacity_usd_per_node_hour(capacity: str) -> float | None:
    """List price of an A4 node-hour bought that way; None where no dated price is known."""
    price: float | None = ledger.entry("prices", "capacity", capacity)["usd"]
    return price


def _as_stated(item: LineItem, stated: Mapping[str, float]) -> LineItem:
    if item.id not in stated:
        return item
    return replace(
        item, unit_price_usd=stated[item.id], reason=None, source=None, note="price stated in the stack file"
    )


def _items(shape: FleetShape) -> Iterator[LineItem]:
    price = ledger.entry("prices", "capacity", shape.capacity)
    committed = bool(price["committed"])
    paid_nodes = max(shape.nodes, shape.committed_nodes or 0) if committed else shape.nodes
    if shape.usd_per_node_hour is not None:
        price = {**price, "usd": shape.usd_per_node_hour, "source": None, "note": "price stated in the stack file"}
    yield _line("nodes", price, paid_nodes, stays=committed)
    if shape.cluster:
        yield _item("cluster-fee", 1, stays=True)
    if shape.nodes:
        yield _item("autopilot-premium", shape.nodes, stays=False)
    if shape.weights is not None:
        yield from _weights_items(shape.weights)
    if shape.benchmark_machine_type is not None:
        name, machines = "Benchmark clients while they run", shape.benchmark_machines
        yield _machine("benchmark", name, shape.benchmark_machine_type, machines, stays=False)
    if shape.epp_machine_type is not None:
        yield _machine("epp", "Endpoint picker", shape.epp_machine_type, 1, stays=True)
    elif shape.epp_vcpus:
        yield _item("epp", shape.epp_vcpus, stays=True)
    if shape.load_balancers:
        yield _item("load-balancer", shape.load_balancers, stays=True)
    if shape.nat_gateways:
        yield _item("nat-gateway", shape.nat_gateways * max(1, shape.nodes), stays=True)
    if shape.registry_gib:
        yield _item("registry", shape.registry_gib, stays=True)
    if shape.bucket_gib:
        yield _item("bucket", shape.bucket_gib, stays=True, retained=shape.bucket_retained)


def _weights_items(weights: WeightsShape) -> Iterator[LineItem]:
    volumes = weights.copies + (1 if weights.writer_throughput_mibps else 0)
    throughput_mibps = weights.throughput_mibps * weights.copies + weights.writer_throughput_mibps
    yield _item("hyperdisk-ml-capacity", weights.size_gib * volumes, stays=True)
    yield _item("hyperdisk-ml-throughput", throughput_mibps, stays=True)
    if weights.image_gib:
        yield _item("disk-image", weights.image_gib, stays=True, retained=weights.image_retained)


def _item(id_: str, quantity: float, *, stays: bool, retained: bool = False) -> LineItem:
    return _line(id_, ledger.entry("prices", "items", id_), quantity, stays=stays, retained=retained)


def _machine(id_: str, what: str, machine_type: str, number: int, *, stays: bool) -> LineItem:
    price = ledger.section("prices", "machines").get(machine_type)
    if price is None:
        reason = f"no dated price for {machine_type} was found"
        price = {"name": f"{machine_type} node", "unit": "node-hour", "usd": None, "reason": reason}
    return _line(id_, {**price, "name": f"{what}: {price['name']}"}, number, stays=stays)


def _line(id_: str, price: Mapping[str, Any], quantity: float, *, stays: bool, retained: bool = False) -> LineItem:
    usd = price["usd"]
    source_id = price.get("source")
    return LineItem(
        id=id_,
        name=price["name"],
        quantity=quantity,
        unit=price["unit"],
        unit_price_usd=usd,
        paid_at_zero_replicas=stays,
        paid_after_destroy=retained,
        reason=price.get("reason") if usd is None else None,
        source=ledger.source(source_id) if source_id and usd is not None else None,
        note=price.get("note") if usd is not None else None,
    )


def _sum_known(items: tuple[LineItem, ...]) -> float:
    return sum(item.usd_per_hour for item in items if item.usd_per_hour is not None)


def _prices_unknown(count: int) -> str:
    return "1 price unknown" if count == 1 else f"{count} prices unknown"
