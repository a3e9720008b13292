"""A stack's bill for its spending guard: dollars an hour for each GPU machine, and for everything that is always billed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from facts import cost
from settings.derived.figures import fleet_shape

if TYPE_CHECKING:
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Dollars an hour for items with a known price, without the benchmark's machines, which run for minutes."""

    fixed: float
    """Billed with zero servers as well: disks, network, cluster, reserved nodes."""
    per_machine: float
    """One GPU machine with its disks."""
    full: float | None
    """Total at full size: a lower bound if prices are unknown, None if the nodes' price is."""
    paid_anyway: bool
    """Whether machines are billed even if they do not run, and are in `fixed`."""
    reserved_first: bool
    """Whether the first machines are a ladder's reservation, which is billed but not counted while no pod uses it."""
    unknown: tuple[str, ...]
    """Names of items with an unknown price, which are not counted."""
    unknown_ids: tuple[str, ...]
    """Their ids in `prices`; the price of `nodes` is in `capacity`."""


def rates(settings: Settings) -> Rates:
    """The stack's hourly rates."""
    shape = replace(fleet_shape(settings), benchmark_machine_type=None)
    whole, one_node = cost.bill(shape), cost.bill(replace(shape, nodes=1, committed_nodes=None))
    return Rates(
        fixed=whole.residual_usd_per_hour,
        per_machine=one_node.usd_per_hour_known - one_node.residual_usd_per_hour,
        full=whole.usd_per_hour,
        paid_anyway=one_node.nodes.paid_at_zero_replicas,
        reserved_first="reservation" in shape.ladder,
        unknown=one_node.unknown,
        unknown_ids=tuple(item.id for item in one_node.items if item.usd_per_hour is None),
    )
