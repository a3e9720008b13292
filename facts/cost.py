"""What a fleet costs an hour, item by item, and what goes on costing when it is paused or destroyed.

Prices come from facts/data/prices.csv, for the stack's own region alone. One that nobody published for it is unknown: its
item stays on the bill without an amount, and every total is then "at least". Nothing unknown is counted as zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from math import inf
from typing import Any

from facts import ledger, prices
from facts.ledger import Source
from facts.machines import DEFAULT_MACHINE, Machine
from facts.node_room import BOOT_DISK_GIB
from facts.prices import Mode, Price

# Source: Google Cloud price pages convert a monthly price to an hourly one with 730 hours.
HOURS_PER_MONTH = 730
SECONDS_PER_HOUR = 3600

NAT_GATEWAY_VMS = 32
"""VMs that a NAT gateway is paid for; those beyond are free. Source: Compute Engine price list, 0.0448 an hour = 32 x 0.0014."""

CAPACITY_KEYS = ("on-demand", "spot", "cud-1y", "cud-3y", "flex-start", "calendar", "reservation", "ladder")
LADDER_STEPS = ("reservation", "flex-start", "spot")
"""The steps of a ladder, in the order in which they are asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsShape:
    """The volume that holds the weights."""

    size_gib: int
    throughput_mibps: int
    copies: int = 1
    """Volumes that servers read, one per zone."""
    releases: int = 1
    """Releases that have such volumes: a canary's are beside the servers'."""
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
    """Nodes with GPUs that run."""
    machine: Machine = DEFAULT_MACHINE
    """Their machine."""
    local_ssd: bool = False
    """Whether they have local SSDs that the machine has only where asked, and that are paid apart."""
    region: str
    """Whose prices count; a price of another region is never used."""
    capacity: str
    """A key of the `capacity` section of prices.yaml."""
    ladder: tuple[str, ...] = LADDER_STEPS
    """Steps of a ladder: some of LADDER_STEPS. Only counts for the capacity `ladder`."""
    committed_nodes: int | None = None
    """Nodes a commitment or reservation is paid for; None takes `nodes`. Only counts for committed capacity."""
    usd_per_node_hour: float | None = None
    """The price the stack file states for a node-hour; it replaces the list price."""
    cluster: bool = True
    """False where the cluster belongs to another stack."""
    weights: WeightsShape | None = None
    download_gib: float = 0
    """GiB that come through Cloud NAT before the servers first answer."""
    benchmark_machine_type: str | None = None
    """Machine of the benchmark clients' nodes; None where no benchmark runs."""
    benchmark_machines: int = 1
    """How many of these machines run while it is measured."""
    epp_vcpus: int = 0
    """vCPUs of the endpoint picker; 0 without a gateway."""
    epp_machine_type: str | None = None
    """Machine of the endpoint picker's own node; None where it runs as an ordinary pod."""
    keda_vcpus: float = 0
    """vCPUs of KEDA's pods; 0 where another stack, or nobody, has it."""
    spending_guard_vcpus: float = 0
    """vCPUs of the guard that stops at a limit; 0 without one."""
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
            "download_gib",
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
    """What the price is for, for example "node-hour" or "GiB-month"; without an hour or a month it is paid once."""
    unit_price_usd: float | None
    """None where no dated price is known; `reason` then says why."""
    paid_at_zero_replicas: bool
    """Whether the line stays when the fleet is paused."""
    paid_after_destroy: bool = False
    """Whether the line stays when the stack is destroyed."""
    reason: str | None = None
    price: Price | None = None
    """The list price with its region, date and source; None where it is unknown or the stack states its own."""
    elsewhere: Price | None = None
    """The cheapest one published for another region, where this one has none; never used."""
    note: str | None = None
    steps: Mapping[str, float | None] = field(default_factory=dict)
    """USD per unit of each step of a ladder, whose price is that of the step that has capacity."""

    @property
    def source(self) -> Source | None:
        """Where the price comes from."""
        return None if self.price is None else ledger.source(self.price.source)

    @property
    def usd_per_hour(self) -> float | None:
        """Dollars an hour; None where the price is unknown, or paid once."""
        if self.unit_price_usd is None or not self.unit.endswith(("-hour", "-month")):
            return None
        hours = HOURS_PER_MONTH if self.unit.endswith("-month") else 1
        return self.quantity * self.unit_price_usd / hours

    @property
    def usd_per_month(self) -> float | None:
        """Dollars a month of 730 hours; None where the price is unknown."""
        hourly = self.usd_per_hour
        return None if hourly is None else hourly * HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """How small a fleet gets whose bill is that of its full size."""

    smallest: Bill
    """The bill with the fewest nodes."""
    floor_share: float
    """Where between the smallest and the full size it is on average by its schedule alone: 0 the smallest, 1 the full size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a fleet costs. Every amount is a lower bound where `unknown` names items."""

    region: str
    items: tuple[LineItem, ...]
    excluded: tuple[str, ...]
    """Costs that follow traffic and are on no line."""
    once: tuple[LineItem, ...] = ()
    """What is paid once, and again when it is done again: in no total."""
    scaled: Scaled | None = None
    """Where an autoscaler moves between a smaller fleet and this one."""

    @property
    def nodes(self) -> LineItem:
        """The line of the GPU nodes."""
        return next(item for item in self.items if item.id == "nodes")

    @property
    def usd_per_hour(self) -> float | None:
        """Dollars an hour, at least; None where the nodes have no price: without them no amount says what the fleet costs."""
        unpriced = self.nodes.unit_price_usd is None and self.nodes.quantity
        return None if unpriced else self.usd_per_hour_known

    def old(self, today: date) -> tuple[LineItem, ...]:
        """Items whose price nobody has looked at for `prices.OLD_AFTER_DAYS`."""
        return tuple(item for item in (*self.items, *self.once) if item.price is not None and item.price.is_old(today))

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

    @property
    def usd_per_month_by_schedule(self) -> float | None:
        """Dollars a month of 730 hours of a fleet that never grows above its schedule, of the items with a known price."""
        if self.scaled is None or self.usd_per_hour is None:
            return None
        least = self.scaled.smallest.usd_per_hour_known
        return (least + (self.usd_per_hour_known - least) * self.scaled.floor_share) * HOURS_PER_MONTH

    def usd_per_million_tokens(self, tokens_per_s: float) -> float | None:
        """Dollars per million tokens at that rate, all known items; None where the nodes' price is unknown.

        Give it total or output tokens a second: the answer is per million of those.
        """
        if self.nodes.usd_per_hour is None or tokens_per_s <= 0:
            return None
        return self.usd_per_hour_known / (tokens_per_s * SECONDS_PER_HOUR) * 1e6

    def format_price_dates(self) -> str:
        """Region and dates of its list prices: "europe-west4, 2026-07-03 to 2026-07-30"."""
        listed = [item.price for item in (*self.items, *self.once) if item.price is not None]
        dates = sorted(price.date for price in listed if price.region == self.region)
        if not dates:
            return f"{self.region}, none known"
        return f"{self.region}, {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "")

    def format_hourly_total(self) -> str:
        """The hourly total as a reader should see it: "$391.32 an hour", or "at least ..." where prices are unknown."""
        nodes, unknown = self.nodes, len(self.unknown)
        amount = f"${self.usd_per_hour_known:,.2f} an hour"
        if self.scaled is not None and self.usd_per_hour is not None:
            smallest = self.scaled.smallest
            few, most = (
                f"{bill.nodes.quantity:g} node{'' if bill.nodes.quantity == 1 else 's'}" for bill in (smallest, self)
            )
            amount = (
                f"${smallest.usd_per_hour_known:,.2f} an hour with {few}, ${self.usd_per_hour_known:,.2f} with {most}"
            )
        if self.usd_per_hour is None:
            each = [f"{name} {_amount(usd, nodes.quantity)}" for name, usd in nodes.steps.items()]
            told = ", ".join(each) or f"no price for {self.region}"
            rest = f"at least {amount}" if unknown > 1 else amount
            return f"{nodes.quantity:g} node{'' if nodes.quantity == 1 else 's'}: {told}; everything else {rest}"
        return f"at least {amount} ({_prices_unknown(unknown)})" if unknown else amount


def bill(shape: FleetShape) -> Bill:
    """The bill of a fleet."""
    items = tuple(_as_stated(item, shape.stated_prices) for item in _items(shape))
    once = tuple(_as_stated(item, shape.stated_prices) for item in _once(shape))
    return Bill(region=shape.region, items=items, once=once, excluded=tuple(ledger.load("prices")["excluded"]))


def priced_items() -> dict[str, str]:
    """Units of the items whose price a stack file may state, by item id."""
    return {id_: str(price["unit"]) for id_, price in ledger.section("prices", "items").items()}


def node_price(capacity: str, region: str, machine: Machine = DEFAULT_MACHINE) -> Price | None:
    """List price of that machine's hour bought that way in that region; None where none was published."""
    mode = _mode(capacity, machine)
    return None if mode is None else prices.find(machine.type, region, mode)


def _mode(capacity: str, machine: Machine) -> Mode | None:
    """The column of the price list; None for a way without a price of its own."""
    if capacity == "reservation" and "on-demand" in machine.ways:
        return "on-demand"
    mode: Mode | None = ledger.entry("prices", "capacity", capacity).get("mode")
    return mode


def _as_stated(item: LineItem, stated: Mapping[str, float]) -> LineItem:
    if item.id not in stated:
        return item
    return replace(
        item,
        unit_price_usd=stated[item.id],
        reason=None,
        price=None,
        elsewhere=None,
        note="price stated in the stack file",
    )


def _items(shape: FleetShape) -> Iterator[LineItem]:
    yield _nodes(shape)
    if shape.cluster:
        yield _item("cluster-fee", 1, shape, stays=True)
    if shape.nodes:
        yield _item("autopilot-premium", shape.nodes, shape, stays=False)
    # C4, as every machine of the benchmark, boots from Hyperdisk alone.
    hyperdisks = shape.benchmark_machines if shape.benchmark_machine_type else 0
    if shape.machine.boot_disk == "hyperdisk-balanced":
        hyperdisks += shape.nodes
    elif shape.nodes:
        yield _item("boot-disk-pd", shape.nodes * BOOT_DISK_GIB, shape, stays=False)
    if hyperdisks:
        yield _item("boot-disk", hyperdisks * BOOT_DISK_GIB, shape, stays=False)
    if shape.local_ssd and shape.nodes:
        yield _item("local-ssd", shape.nodes * shape.machine.local_ssd_gb, shape, stays=False)
    if shape.weights is not None:
        yield from _weights_items(shape.weights, shape)
    if shape.benchmark_machine_type is not None:
        name = f"Benchmark clients while they run: {shape.benchmark_machine_type} on demand"
        yield _machine("benchmark", name, shape.benchmark_machine_type, shape.benchmark_machines, shape, stays=False)
    if shape.epp_machine_type is not None:
        name = f"Endpoint picker: {shape.epp_machine_type} on demand"
        yield _machine("epp", name, shape.epp_machine_type, 1, shape, stays=True)
    elif shape.epp_vcpus:
        yield _item("epp", shape.epp_vcpus, shape, stays=True)
    if shape.keda_vcpus:
        yield _item("keda", shape.keda_vcpus, shape, stays=True)
    if shape.spending_guard_vcpus:
        yield _item("spending-guard", shape.spending_guard_vcpus, shape, stays=True)
    if shape.load_balancers:
        yield _item("load-balancer", shape.load_balancers, shape, stays=True)
    if shape.nat_gateways:
        yield _item("nat-gateway", shape.nat_gateways * min(max(1, shape.nodes), NAT_GATEWAY_VMS), shape, stays=True)
        yield _item("nat-address", shape.nat_gateways, shape, stays=True)
    if shape.registry_gib:
        yield _item("registry", shape.registry_gib, shape, stays=True)
    if shape.bucket_gib:
        yield _item("bucket", shape.bucket_gib, shape, stays=True, retained=shape.bucket_retained)


def _once(shape: FleetShape) -> Iterator[LineItem]:
    if shape.download_gib:
        yield _item("nat-data", shape.download_gib, shape, stays=False)


def _nodes(shape: FleetShape) -> LineItem:
    what = ledger.entry("prices", "capacity", shape.capacity)
    committed = bool(what["committed"])
    paid_nodes = max(shape.nodes, shape.committed_nodes or 0) if committed else shape.nodes
    machine, mode = shape.machine, _mode(shape.capacity, shape.machine)
    price = node_price(shape.capacity, shape.region, machine)
    line = LineItem(
        id="nodes",
        name=f"{machine.family.upper()} node ({machine.type}), {what['name']}",
        quantity=paid_nodes,
        unit="node-hour",
        unit_price_usd=None if price is None else price.usd,
        paid_at_zero_replicas=committed,
        price=price,
    )
    if shape.usd_per_node_hour is not None:
        return _as_stated(line, {"nodes": shape.usd_per_node_hour})
    if price is not None:
        return line
    steps = _ladder(shape) if shape.capacity == "ladder" else {}
    elsewhere = None if mode is None else _elsewhere(machine.type, mode)
    told = f": {', '.join(f'{name} {_amount(usd, 1)}' for name, usd in steps.items())}" if steps else ""
    reason = f"{_why_unknown(what, shape.region, elsewhere)}{told}; state yours as the price of a node-hour"
    return replace(line, reason=reason, elsewhere=elsewhere, steps=steps)


def _ladder(shape: FleetShape) -> dict[str, float | None]:
    """USD a node-hour of each step; None where it is not published, as a reservation's never is."""
    found = {step: node_price(step, shape.region, shape.machine) for step in LADDER_STEPS if step in shape.ladder}
    return {step: None if price is None else price.usd for step, price in found.items()}


def _weights_items(weights: WeightsShape, shape: FleetShape) -> Iterator[LineItem]:
    written = bool(weights.writer_throughput_mibps)
    volumes = weights.releases * (weights.copies + written)
    throughput_mibps = weights.releases * (weights.throughput_mibps * weights.copies + weights.writer_throughput_mibps)
    whose = " (readers and writer)" if written else ""
    for id_, quantity in (
        ("hyperdisk-ml-capacity", weights.size_gib * volumes),
        ("hyperdisk-ml-throughput", throughput_mibps),
    ):
        line = _item(id_, quantity, shape, stays=True)
        yield replace(line, name=line.name + whose)
    if weights.image_gib:
        yield _item("disk-image", weights.image_gib, shape, stays=True, retained=weights.image_retained)


def _item(id_: str, quantity: float, shape: FleetShape, *, stays: bool, retained: bool = False) -> LineItem:
    return _line(id_, ledger.entry("prices", "items", id_), id_, quantity, shape, stays=stays, retained=retained)


def _machine(id_: str, name: str, machine_type: str, number: int, shape: FleetShape, *, stays: bool) -> LineItem:
    return _line(id_, {"name": name, "unit": "node-hour"}, machine_type, number, shape, stays=stays)


def _line(
    id_: str,
    what: Mapping[str, Any],
    priced: str,
    quantity: float,
    shape: FleetShape,
    *,
    stays: bool,
    retained: bool = False,
) -> LineItem:
    price = prices.find(priced, shape.region)
    elsewhere = None if price is not None else _elsewhere(priced)
    return LineItem(
        id=id_,
        name=what["name"],
        quantity=quantity,
        unit=what["unit"],
        unit_price_usd=None if price is None else price.usd,
        paid_at_zero_replicas=stays,
        paid_after_destroy=retained,
        reason=_why_unknown(what, shape.region, elsewhere) if price is None else None,
        price=price,
        elsewhere=elsewhere,
        note=what.get("note") if price is not None else None,
    )


def _elsewhere(what: str, mode: Mode = "on-demand") -> Price | None:
    return next(iter(prices.published(what, mode)), None)


def _why_unknown(what: Mapping[str, Any], region: str, elsewhere: Price | None) -> str:
    if elsewhere is None:
        return str(what.get("reason") or "no dated price was found")
    return f"no dated price for {region} was found; {elsewhere.region}'s, ${elsewhere.usd:,g} of {elsewhere.date}, is not used"


def _sum_known(items: tuple[LineItem, ...]) -> float:
    return sum(item.usd_per_hour for item in items if item.usd_per_hour is not None)


def _amount(usd: float | None, quantity: float) -> str:
    return "unknown" if usd is None else f"${usd * quantity:,.2f}"


def _prices_unknown(count: int) -> str:
    return "1 price unknown" if count == 1 else f"{count} prices unknown"
