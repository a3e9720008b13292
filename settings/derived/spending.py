"""The bill of a stack as its spending guard counts it: dollars an hour of each machine with GPUs, and of what is always there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Dollars an hour, of items with a known price. The benchmark's machines, which run for minutes, are in none."""

    fixed: float
    """What is paid at zero servers too: disks, network, cluster, and nodes that are reserved."""
    per_machine: float
    """A machine with GPUs and what comes with it."""
    full: float | None
    """All of it at full size: at least so much where prices are unknown, and None where that of the nodes is."""
    paid_anyway: bool
    """Whether machines are paid whether they run or not, and so are in `fixed`."""
    reserved_first: bool
    """Whether the first machines are a reservation's: paid whether they run or not, and yet in no sum while no pod has them."""
    unknown: tuple[str, ...]
    """Names of the items that no sum holds, because nobody knows their price."""
    unknown_ids: tuple[str, ...]
    """The same items as `prices` names them; `nodes` has its price in `capacity`."""


def rates(settings: Settings) -> Rates:
    """The stack's bill, by what it follows."""
    from facts import cost
    from settings.derived.figures import fleet_shape

    shape = replace(fleet_shape(settings), benchmark_machine_type=None)
    whole, one = cost.bill(shape), cost.bill(replace(shape, nodes=1, committed_nodes=None))
    return Rates(
        fixed=whole.residual_usd_per_hour,
        per_machine=one.usd_per_hour_known - one.residual_usd_per_hour,
        full=whole.usd_per_hour,
        paid_anyway=one.nodes.paid_at_zero_replicas,
        reserved_first="reservation" in shape.ladder,
        unknown=one.unknown,
        unknown_ids=tuple(item.id for item in one.items if item.usd_per_hour is None),
    )
