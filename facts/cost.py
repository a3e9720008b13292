"""The hourly cost of a fleet by item, and the residual cost when it is paused or destroyed.

Prices come from facts/data/prices.csv, for the stack's region only. An item with an unknown price stays on the bill without an amount,
and totals become lower bounds ("at least").
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
from facts.node_room import BOOT_DISK_BESIDE_LOCAL_SSD_GIB, GIB, boot_disk_gib
from facts.prices import Mode, Price
from facts.regions import nearest_region
from facts.sizing import BENCHMARK_CLIENT_DISK_GIB

# Source: Google Cloud price pages convert a monthly price to an hourly one with 730 hours.
HOURS_PER_MONTH = 730
SECONDS_PER_HOUR = 3600

NAT_GATEWAY_VMS = 32
"""Maximum number of VMs that a NAT gateway is billed for. Source: Compute Engine price list, 0.0448 an hour = 32 x 0.0014."""

CAPACITY_KEYS = ("on-demand", "spot", "cud-1y", "cud-3y", "flex-start", "calendar", "reservation", "compute-class")
PRIORITIES = ("reservation", "spot", "flex-start")
"""Priorities of a ComputeClass, in order: Spot first, because the autoscaler waits at flex-start (`capacity.FLEX_START_WAIT_SECONDS`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsShape:
    """The weights volume."""

    size_gib: int
    throughput_mibps: int
    copies: int = 1
    """Volumes that servers read, one per zone."""
    releases: int = 1
    """Releases with separate volumes: the servers' and a canary's."""
    writer_throughput_mibps: int = 0
    """Throughput of the writer's volume, of the same size; 0 without one."""
    image_gib: int = 0
    """GiB of the disk image, which is retained when the stack is destroyed; volumes are deleted with their claims. 0 without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """The billed resources of a stack. Raises ValueError for an invalid number."""

    nodes: int
    """Running nodes with GPUs."""
    machine: Machine = DEFAULT_MACHINE
    """Their machine type."""
    local_ssd: bool = False
    """Whether they have optional local SSDs, which are billed separately."""
    boot_disk_gib: int = BOOT_DISK_BESIDE_LOCAL_SSD_GIB
    """GiB of each of their boot disks: `node_room.boot_disk_of`. Default: of a node with local SSDs."""
    region: str
    """Region of the prices; prices of other regions are never used."""
    capacity: str
    """A key of the `capacity` section of prices.yaml."""
    priorities: tuple[str, ...] = PRIORITIES
    """Priorities of a ComputeClass, from PRIORITIES. For the capacity `compute-class` only."""
    committed_nodes: int | None = None
    """Billed nodes of a commitment or reservation; None: `nodes`. For committed capacity only."""
    reserved_nodes: int = 0
    """Nodes of a ComputeClass's reservation, billed whether they run or not; 0 without one, or if its size is not stated."""
    usd_per_node_hour: float | None = None
    """The stack file's price of a node-hour, which replaces the list price."""
    cluster: bool = True
    """False if the cluster belongs to another stack."""
    weights: WeightsShape | None = None
    download_gib: float = 0
    """GiB downloaded through Cloud NAT before the first response."""
    benchmark_machine_type: str | None = None
    """Machine type of the benchmark clients; None without a benchmark."""
    epp_vcpus: int = 0
    """vCPUs of the endpoint picker; 0 without a gateway."""
    keda_vcpus: float = 0
    """vCPUs of KEDA's pods; 0 if this stack does not install it."""
    spending_guard_vcpus: float = 0
    """vCPUs of the spending guard; 0 without one."""
    batch_vcpus: float = 0
    """vCPUs of a batch's pods while it runs; 0 without batches."""
    router_vcpus: float = 0
    """vCPUs of the routers; 0 without one."""
    load_balancers: int = 0
    """Forwarding rules of the gateway and of the internal load balancer."""
    gateway_addresses: int = 0
    """Static external addresses of the gateway."""
    certificates: int = 0
    """Certificates that Google issues."""
    nat_gateways: int = 0
    registry_gib: float = 0
    """GiB in the image repository."""
    bucket_gib: float = 0
    """GiB in the results bucket, which is retained when the stack is destroyed."""
    stated_prices: Mapping[str, float] = field(default_factory=dict)
    """The stack file's prices in USD per unit, by item id, which replace list prices."""

    def __post_init__(self) -> None:
        if self.capacity not in CAPACITY_KEYS:
            raise ValueError(f"capacity must be one of {', '.join(CAPACITY_KEYS)}, got {self.capacity!r}")
        for name in (
            "nodes",
            "reserved_nodes",
            "epp_vcpus",
            "load_balancers",
            "gateway_addresses",
            "certificates",
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
    """Unit of the price, for example "node-hour" or "GiB-month"; billed once if it is not per hour or month."""
    unit_price_usd: float | None
    """None if no dated price is known, with a `reason`."""
    paid_at_zero_replicas: bool
    """Whether it is billed while the fleet is paused."""
    at_zero_replicas: LineItem | None = None
    """What is billed instead of it while the fleet is paused, of an item of which only a part stays; None: all of it or nothing."""
    paid_after_destroy: bool = False
    """Whether it is billed after the stack is destroyed."""
    reason: str | None = None
    price: Price | None = None
    """The list price with its region, date and source; None if it is unknown or replaced by the stack file's price."""
    elsewhere: Price | None = None
    """The price of the nearest region that has one, if this region has none: an indication, never in totals."""
    note: str | None = None
    steps: Mapping[str, float | None] = field(default_factory=dict)
    """USD per unit of each priority of a ComputeClass."""

    @property
    def source(self) -> Source | None:
        """Source of the price."""
        return None if self.price is None else ledger.source(self.price.source)

    @property
    def usd_per_hour(self) -> float | None:
        """Dollars an hour; None if the price is unknown or billed once."""
        if self.unit_price_usd is None or not self.unit.endswith(("-hour", "-month")):
            return None
        hours = HOURS_PER_MONTH if self.unit.endswith("-month") else 1
        return self.quantity * self.unit_price_usd / hours

    @property
    def indicated_usd_per_hour(self) -> float | None:
        """Dollars an hour at the price of the nearest region; None if the price is known, or nowhere published."""
        if self.unit_price_usd is not None or self.elsewhere is None:
            return None
        return replace(self, unit_price_usd=self.elsewhere.usd).usd_per_hour

    @property
    def usd_per_month(self) -> float | None:
        """Dollars a month of 730 hours; None if the price is unknown."""
        hourly = self.usd_per_hour
        return None if hourly is None else hourly * HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """The smaller sizes of a fleet with an autoscaler."""

    smallest: Bill
    """The bill with the fewest nodes."""
    floor_share: float | None
    """Average size by schedule: 0 the smallest, 1 the full size. None where batches decide, not a schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The bill of a fleet. Every amount is a lower bound if `unknown` is not empty."""

    region: str
    items: tuple[LineItem, ...]
    excluded: tuple[str, ...]
    """Costs that depend on traffic and are not on the bill."""
    once: tuple[LineItem, ...] = ()
    """Items billed each time they occur; not in totals."""
    scaled: Scaled | None = None
    """The smaller sizes of a fleet with an autoscaler."""

    @property
    def nodes(self) -> LineItem:
        """The item of the GPU nodes."""
        return next(item for item in self.items if item.id == "nodes")

    @property
    def usd_per_hour(self) -> float | None:
        """Dollars an hour, at least; None if the nodes' price is unknown, because they are most of the cost."""
        unpriced = self.nodes.unit_price_usd is None and self.nodes.quantity
        return None if unpriced else self.usd_per_hour_known

    def old(self, today: date) -> tuple[LineItem, ...]:
        """Items with a price older than `prices.OLD_AFTER_DAYS`."""
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
        """Items billed at 0 replicas."""
        left = (item.at_zero_replicas or (item if item.paid_at_zero_replicas else None) for item in self.items)
        return tuple(item for item in left if item is not None)

    @property
    def residual_usd_per_hour(self) -> float:
        """Dollars an hour at 0 replicas, for items with a known price."""
        return _sum_known(self.residual_items)

    @property
    def after_destroy_items(self) -> tuple[LineItem, ...]:
        """Items billed after the stack is destroyed, because they are retained."""
        return tuple(item for item in self.items if item.paid_after_destroy)

    @property
    def after_destroy_usd_per_month(self) -> float:
        """Dollars a month after the stack is destroyed, for items with a known price."""
        return _sum_known(self.after_destroy_items) * HOURS_PER_MONTH

    @property
    def usd_per_month_by_schedule(self) -> float | None:
        """Dollars a month of 730 hours for a fleet that follows its schedule only, for items with a known price."""
        if self.scaled is None or self.scaled.floor_share is None or self.usd_per_hour is None:
            return None
        least = self.scaled.smallest.usd_per_hour_known
        return (least + (self.usd_per_hour_known - least) * self.scaled.floor_share) * HOURS_PER_MONTH

    def usd_per_million_tokens(self, tokens_per_s: float) -> float | None:
        """Dollars per million tokens at a rate of total or output tokens, for items with a known price; None if the nodes' is unknown."""
        if self.nodes.usd_per_hour is None or tokens_per_s <= 0:
            return None
        return self.usd_per_hour_known / (tokens_per_s * SECONDS_PER_HOUR) * 1e6

    def format_price_dates(self) -> str:
        """Region and dates of the list prices: "europe-west4, 2026-07-03 to 2026-07-30"."""
        listed = [item.price for item in (*self.items, *self.once) if item.price is not None]
        dates = sorted(price.date for price in listed if price.region == self.region)
        if not dates:
            return f"{self.region}, no known prices"
        return f"{self.region}, {dates[0]}" + (f" to {dates[-1]}" if dates[-1] != dates[0] else "")

    def format_hourly_total(self, *, indicates: bool = False) -> str:
        """The hourly total: "$391.32 an hour", or "at least ..." if prices are unknown. `indicates`: with those of the nearest regions."""
        nodes, unknown = self.nodes, len(self.unknown)
        amount = f"${self.usd_per_hour_known:,.2f} an hour"
        if self.scaled is not None and self.usd_per_hour is not None:
            smallest = self.scaled.smallest
            few, most = (
                f"{bill.nodes.quantity:g} node{'' if bill.nodes.quantity == 1 else 's'}" for bill in (smallest, self)
            )
            limit = "" if unknown else "at most "
            amount = f"${smallest.usd_per_hour_known:,.2f} an hour with {few}, {limit}${self.usd_per_hour_known:,.2f} with {most}"
        if self.usd_per_hour is None:
            each = [f"{name} {_amount(usd, nodes.quantity)}" for name, usd in nodes.steps.items()]
            usd, near = nodes.indicated_usd_per_hour, nodes.elsewhere
            about = (
                f" (about {_amount(usd, 1)} an hour in {near.region})" if usd is not None and near is not None else ""
            )
            known = ", ".join(each) or f"no price for {self.region}{about}"
            rest = f"at least {amount}" if unknown > 1 else amount
            return f"{nodes.quantity:g} node{'' if nodes.quantity == 1 else 's'}: {known}; everything else {rest}"
        beside = tuple(item for item in self.items if item is not nodes) if indicates else ()
        rest = ", ".join(filter(None, (_prices_unknown(unknown), format_indication(beside))))
        return f"at least {amount} ({rest})" if unknown else amount


def format_indication(items: tuple[LineItem, ...]) -> str:
    """What the unknown prices an hour are in the nearest regions: "2 of them about $0.75 in us-central1"."""
    found = [item for item in items if item.indicated_usd_per_hour is not None]
    if not found:
        return ""
    usd = sum(item.indicated_usd_per_hour or 0.0 for item in found)
    where = " and ".join(sorted({item.elsewhere.region for item in found if item.elsewhere is not None}))
    which = "" if sum(item.usd_per_hour is None for item in items) == 1 else f"{len(found)} of them "
    return f"{which}about ${usd:,.2f} in {where}"


def bill(shape: FleetShape) -> Bill:
    """The bill of a fleet."""
    items = tuple(_as_stated(item, shape.stated_prices) for item in _items(shape))
    once = tuple(_as_stated(item, shape.stated_prices) for item in _once(shape))
    return Bill(region=shape.region, items=items, once=once, excluded=tuple(ledger.load("prices")["excluded"]))


def priced_items() -> dict[str, str]:
    """Units of the items whose price a stack file can set, by item id."""
    return {id_: str(price["unit"]) for id_, price in ledger.section("prices", "items").items()}


def node_price(capacity: str, region: str, machine: Machine = DEFAULT_MACHINE) -> Price | None:
    """List price of a node-hour by capacity, region and machine type; None if none was published."""
    mode = _mode(capacity, machine)
    return None if mode is None else prices.find(machine.type, region, mode)


def _mode(capacity: str, machine: Machine) -> Mode | None:
    """Column of the price list; None for a capacity without one."""
    if capacity == "reservation" and "on-demand" in machine.ways:
        return "on-demand"
    mode: Mode | None = ledger.entry("prices", "capacity", capacity).get("mode")
    return mode


def _as_stated(item: LineItem, stated: Mapping[str, float]) -> LineItem:
    if item.id not in stated:
        return item
    return replace(
        item,
        at_zero_replicas=item.at_zero_replicas and _as_stated(item.at_zero_replicas, stated),
        unit_price_usd=stated[item.id],
        reason=None,
        price=None,
        elsewhere=None,
        note="price from the stack file",
    )


def _items(shape: FleetShape) -> Iterator[LineItem]:
    freed = min(shape.nodes, shape.reserved_nodes)
    yield replace(_nodes(shape), at_zero_replicas=_reservation(shape, freed) if freed else None)
    if idle := shape.reserved_nodes - freed:
        yield _reservation(shape, idle)
    if shape.cluster:
        yield _item("cluster-fee", 1, shape, stays=True)
    if shape.nodes:
        yield _item("autopilot-premium", shape.nodes, shape, stays=False)
    # C4, which the benchmark uses, supports only Hyperdisk.
    clients = int(shape.benchmark_machine_type is not None)
    hyperdisks_gib = clients * boot_disk_gib(BENCHMARK_CLIENT_DISK_GIB * GIB)
    if shape.machine.boot_disk == "hyperdisk-balanced":
        hyperdisks_gib += shape.nodes * shape.boot_disk_gib
    elif shape.nodes:
        yield _item("boot-disk-pd", shape.nodes * shape.boot_disk_gib, shape, stays=False)
    if hyperdisks_gib:
        yield _item("boot-disk", hyperdisks_gib, shape, stays=False)
    if shape.local_ssd and shape.nodes:
        yield _item("local-ssd", shape.nodes * shape.machine.local_ssd_gb, shape, stays=False)
    if shape.weights is not None:
        yield from _weights_items(shape.weights, shape)
    if shape.benchmark_machine_type is not None:
        name = f"Benchmark clients during a run: {shape.benchmark_machine_type} on demand"
        yield _machine("benchmark", name, shape.benchmark_machine_type, 1, shape, stays=False)
    if shape.epp_vcpus:
        yield _item("epp", shape.epp_vcpus, shape, stays=True)
    others = (
        ("keda", shape.keda_vcpus, True),
        ("spending-guard", shape.spending_guard_vcpus, True),
        ("batch-clients", shape.batch_vcpus, False),
        ("router", shape.router_vcpus, True),
        ("load-balancer", shape.load_balancers, True),
        ("gateway-address", shape.gateway_addresses, True),
        ("certificate", shape.certificates, True),
    )
    yield from (_item(id_, quantity, shape, stays=stays) for id_, quantity, stays in others if quantity)
    if shape.nat_gateways:
        paused = _item("nat-gateway", shape.nat_gateways, shape, stays=True)  # by the cluster's own machine
        machines = min(max(1, shape.nodes), NAT_GATEWAY_VMS)
        yield replace(paused, quantity=shape.nat_gateways * machines, at_zero_replicas=paused)
        yield _item("nat-address", shape.nat_gateways, shape, stays=True)
    if shape.registry_gib:
        yield _item("registry", shape.registry_gib, shape, stays=True)
    if shape.bucket_gib:
        yield _item("bucket", shape.bucket_gib, shape, stays=True, retained=True)


def _once(shape: FleetShape) -> Iterator[LineItem]:
    if shape.download_gib:
        yield _item("nat-data", shape.download_gib, shape, stays=False)


def _nodes(shape: FleetShape) -> LineItem:
    capacity = _priced_as(shape)
    what = ledger.entry("prices", "capacity", capacity)
    committed = bool(what["committed"])
    paid_nodes = max(shape.nodes, shape.committed_nodes or 0) if committed else shape.nodes
    line = _node_hours(shape, capacity, paid_nodes, id_="nodes", how=what["name"], stays=committed)
    steps = priority_prices(shape) if capacity == "compute-class" else {}
    known = {priority: usd for priority, usd in steps.items() if usd is not None}
    if shape.usd_per_node_hour is not None and max(known.values(), default=0.0) > shape.usd_per_node_hour:
        each = ", ".join(f"{priority} {_amount(usd, 1)}" for priority, usd in known.items())
        dearest = max(known, key=known.__getitem__)
        return replace(
            line,
            unit_price_usd=known[dearest],
            price=node_price(dearest, shape.region, shape.machine),
            steps=steps,
            note=f"the dearest priority's: {each}",
        )
    if shape.usd_per_node_hour is not None:
        return replace(_as_stated(line, {"nodes": shape.usd_per_node_hour}), steps=steps)
    if line.price is not None:
        return line
    priorities = f": {', '.join(f'{name} {_amount(usd, 1)}' for name, usd in steps.items())}" if steps else ""
    reason = f"{_why_unknown(what, shape.region, line.elsewhere)}{priorities}; set capacity.usdPerNodeHour"
    return replace(line, reason=reason, steps=steps)


def _reservation(shape: FleetShape, nodes: int) -> LineItem:
    """Nodes of a ComputeClass's reservation that do not run."""
    line = _node_hours(shape, "reservation", nodes, id_="reservation", how="idle in the reservation", stays=True)
    if line.price is None:
        reason = _why_unknown(ledger.entry("prices", "capacity", "reservation"), shape.region, line.elsewhere)
        line = replace(line, reason=f"{reason}; set capacity.usdPerNodeHour")
    return line if shape.usd_per_node_hour is None else _as_stated(line, {"reservation": shape.usd_per_node_hour})


def _node_hours(shape: FleetShape, capacity: str, nodes: int, *, id_: str, how: str, stays: bool) -> LineItem:
    """That many nodes at the list price of a capacity."""
    machine, mode = shape.machine, _mode(capacity, shape.machine)
    price = node_price(capacity, shape.region, machine)
    return LineItem(
        id=id_,
        name=f"{machine.family.upper()} node ({machine.type}), {how}",
        quantity=nodes,
        unit="node-hour",
        unit_price_usd=None if price is None else price.usd,
        paid_at_zero_replicas=stays,
        price=price,
        elsewhere=None if price is not None or mode is None else _elsewhere(machine.type, shape.region, mode),
    )


def _priced_as(shape: FleetShape) -> str:
    """The capacity whose list price the nodes have: of a ComputeClass with a single priority, that priority's."""
    alone = shape.capacity == "compute-class" and shape.priorities in (("flex-start",), ("spot",))
    return shape.priorities[0] if alone else shape.capacity


def priority_prices(shape: FleetShape) -> dict[str, float | None]:
    """USD a node-hour of each priority of a ComputeClass; None if it is neither published nor stated.

    The stack file's price is the reservation's, and of priorities without a published one; without a reservation it is every priority's.
    """
    stated, found = shape.usd_per_node_hour, {}
    for priority in PRIORITIES:
        if priority not in shape.priorities:
            continue
        is_stated = priority == "reservation" or "reservation" not in shape.priorities
        listed = None if is_stated and stated is not None else node_price(priority, shape.region, shape.machine)
        found[priority] = stated if listed is None else listed.usd
    return found


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
        yield _item("disk-image", weights.image_gib, shape, stays=True, retained=True)


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
    elsewhere = None if price is not None else _elsewhere(priced, shape.region)
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


def _elsewhere(what: str, region: str, mode: Mode = "on-demand") -> Price | None:
    """The price of the nearest region; the cheapest where nothing is known of this one's place."""
    by_region = {price.region: price for price in reversed(prices.published(what, mode))}
    near = nearest_region(region, by_region)
    return by_region[near] if near else next(iter(prices.published(what, mode)), None)


def _why_unknown(what: Mapping[str, Any], region: str, elsewhere: Price | None) -> str:
    if elsewhere is None:
        return str(what.get("reason") or "no dated price was found")
    near = f"${elsewhere.usd:,g} in {elsewhere.region} ({elsewhere.date})"
    return f"no dated price for {region} was found; the nearest, {near}, is not in the total"


def _sum_known(items: tuple[LineItem, ...]) -> float:
    return sum(item.usd_per_hour for item in items if item.usd_per_hour is not None)


def _amount(usd: float | None, quantity: float) -> str:
    return "unknown" if usd is None else f"${usd * quantity:,.2f}"


def _prices_unknown(count: int) -> str:
    return "1 price unknown" if count == 1 else f"{count} prices unknown"
