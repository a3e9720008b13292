"""A stack's bill for its spending guard: dollars an hour for each GPU machine, and for everything that is always billed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING

from facts import cost, prices
from settings.derived.figures import fleet_shape
from settings.sections.capacity import ComputeClassMode

if TYPE_CHECKING:
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Dollars an hour for items with a known price, without the benchmark's machines, which run for minutes."""

    fixed: float
    """Billed with zero servers as well: disks, network, cluster, reserved nodes."""
    per_machine: float
    """One GPU machine with its disks; of a ComputeClass, at its dearest priority."""
    per_priority: Mapping[str, float]
    """The same by the ComputeClass's priority; empty where all priorities cost the same or one has no price."""
    reserved_nodes: int
    """Machines of the ComputeClass's reservation; 0 without one, or where their number or price is not known."""
    per_reserved_node: float
    """One of them while it does not run."""
    full: float | None
    """Total at full size: a lower bound if prices are unknown, None if the nodes' price is."""
    paid_anyway: bool
    """Whether machines are billed even if they do not run, and are in `fixed`."""
    reserved_first: bool
    """Whether the first machines are a ComputeClass's reservation, which is billed whether a pod uses it or not."""
    unknown: tuple[str, ...]
    """Names of items with an unknown price, which are not counted."""
    unknown_ids: tuple[str, ...]
    """Their ids in `prices`; the price of `nodes` is in `capacity`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What the stack costs at most, because the spending guard pauses it there."""

    usd: float
    until: str
    """`month`, `since` for one sum, or the moment of `spending.until`."""
    paused_usd_per_hour: float
    """What a paused fleet still costs."""
    is_of_known_prices: bool
    """Whether prices are unknown, which the guard cannot count."""

    def text(self) -> str:
        """The bound, as a report says it."""
        span = {"month": "a month", "since": "in all"}.get(self.until, f"until {self.until}")
        known = " at the known prices" if self.is_of_known_prices else ""
        return (
            f"at most ${self.usd:,.2f} {span}{known}: the spending guard pauses the fleet there; paused, it costs "
            f"${self.paused_usd_per_hour:,.2f} an hour"
        )


def bounds(settings: Settings) -> tuple[Bound, ...]:
    """Upper bounds of the price. None where the guard only warns, or where nodes are billed during a pause."""
    spending = settings.spending
    if spending is None or spending.then != "pause":
        return ()
    counted = rates(settings)
    if counted.paid_anyway or counted.reserved_first or counted.full is None:
        return ()
    ends: list[tuple[str, float]] = []
    if spending.limit is not None:
        ends.append((spending.every or "since", spending.limit))
    if spending.until is not None:
        left = datetime.fromisoformat(spending.until) - datetime.combine(prices.today(), time(), UTC)
        ends.append((spending.until, counted.full * max(0.0, left.total_seconds()) / cost.SECONDS_PER_HOUR))
    return tuple(
        Bound(usd=usd, until=until, paused_usd_per_hour=counted.fixed, is_of_known_prices=bool(counted.unknown))
        for until, usd in ends
    )


def rates(settings: Settings) -> Rates:
    """The stack's hourly rates."""
    # The guard counts the reservation by the machines that run in it.
    shape = replace(fleet_shape(settings), benchmark_machine_type=None, reserved_nodes=0)
    capacity = settings.capacity
    priorities = cost.priority_prices(shape)
    known = {priority: usd for priority, usd in priorities.items() if usd is not None}
    is_known = bool(known) and len(known) == len(priorities)
    if is_known:
        shape = replace(shape, usd_per_node_hour=max(known.values()))
    whole, one_node = cost.bill(shape), cost.bill(replace(shape, nodes=1, committed_nodes=None))
    per_machine = one_node.usd_per_hour_known - one_node.residual_usd_per_hour
    reservation = capacity.reservation if isinstance(capacity, ComputeClassMode) else None
    reserved_nodes = (reservation.nodes or 0) if reservation is not None and is_known else 0
    per_reserved_node = known["reservation"] if reserved_nodes else 0.0
    never_used = max(0, reserved_nodes - settings.nodes)
    differ = is_known and (len(set(known.values())) > 1 or reserved_nodes > 0)
    return Rates(
        fixed=whole.residual_usd_per_hour,
        per_machine=per_machine,
        per_priority={priority: per_machine + usd - max(known.values()) for priority, usd in known.items()}
        if differ
        else {},
        reserved_nodes=reserved_nodes,
        per_reserved_node=per_reserved_node,
        full=None if whole.usd_per_hour is None else whole.usd_per_hour + never_used * per_reserved_node,
        paid_anyway=one_node.nodes.paid_at_zero_replicas,
        reserved_first=reservation is not None,
        unknown=one_node.unknown,
        unknown_ids=tuple(item.id for item in one_node.items if item.usd_per_hour is None),
    )
