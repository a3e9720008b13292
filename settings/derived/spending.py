"""The bill of a stack as its spending guard counts it: dollars an hour of each machine with pods, and of what is always there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from settings.names import BENCHMARK_APP

if TYPE_CHECKING:
    from facts.cost import Bill
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Dollars an hour, of items with a known price."""

    fixed: float
    """What is paid at zero servers too: disks, network, cluster, and nodes that are reserved."""
    per_gpu_machine: float
    per_machine_of: Mapping[str, float]
    """By the pods' label `app`: machines of pods without GPUs."""
    paid_anyway: bool
    """Whether GPU machines are paid whether they run or not, and so are in `fixed`."""
    unknown: tuple[str, ...]
    """Names of the items that no sum holds, because nobody knows their price."""


def rates(settings: Settings) -> Rates:
    """The stack's bill, by what it follows."""
    from facts import cost
    from settings.derived.figures import fleet_shape

    shape = fleet_shape(settings)
    whole = cost.bill(shape)
    alone = cost.bill(replace(shape, nodes=1, committed_nodes=None, benchmark_machine_type=None))
    with_clients = cost.bill(replace(shape, nodes=1, committed_nodes=None))
    machines = shape.benchmark_machines if shape.benchmark_machine_type else 0
    return Rates(
        fixed=whole.residual_usd_per_hour,
        per_gpu_machine=_running(alone),
        per_machine_of={BENCHMARK_APP: (_running(with_clients) - _running(alone)) / machines} if machines else {},
        paid_anyway=alone.nodes.paid_at_zero_replicas,
        unknown=whole.unknown if shape.nodes else alone.unknown,
    )


def _running(bill: Bill) -> float:
    """Dollars an hour of what runs only while servers or clients do."""
    return bill.usd_per_hour_known - bill.residual_usd_per_hour


def full_usd_per_hour(settings: Settings) -> float | None:
    """Dollars an hour at full size without the benchmark, which runs for minutes: at least so many where prices are unknown, and
    None where that of the nodes is.
    """
    from facts import cost
    from settings.derived.figures import fleet_shape

    return cost.bill(replace(fleet_shape(settings), benchmark_machine_type=None)).usd_per_hour
