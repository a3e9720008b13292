"""As many nodes as so many dollars an hour pay for, spares and everything around them included."""

from __future__ import annotations

from collections.abc import Callable

from facts.sizing import Sizing, size
from fleet.plan.money import bill_of, node_hour_usd
from fleet.plan.question.goals import MOST_MACHINES, PlanImpossibleError, PlanQuestion
from fleet.report.words import format_usd, plural


def machines_within(
    question: PlanQuestion, usd_per_hour: float, *, fewest: int, machines_for: Callable[[int], int]
) -> int:
    """The most needed nodes whose bill, with `machines_for` so many nodes, is within the budget.

    Raises PlanImpossibleError where not even `fewest` are, or where nodes have no known price.
    """
    if node_hour_usd(question) is None:
        raise PlanImpossibleError(
            f"no dated price of a node-hour is known for {question.machine.type} as {question.capacity} in {question.region}, so a "
            "budget gives no number of nodes",
            "state your price (--usd-per-node-hour), or plan for what `fleet prices` shows",
        )

    def cost(nodes: int) -> float:
        machines = machines_for(nodes)
        # As every report shows it, in whole cents: the amount that a plan names buys that plan.
        return round(bill_of(question, size_of_machines(question, machines), machines).usd_per_hour_known, 2)

    if cost(fewest) > usd_per_hour:
        count = plural(machines_for(fewest), "node")
        raise PlanImpossibleError(
            f"{format_usd(usd_per_hour)} an hour do not pay for the smallest fleet, {count} and what stands around",
            f"{format_usd(cost(fewest))} an hour",
        )
    low, high = fewest, MOST_MACHINES
    while low < high:
        middle = (low + high + 1) // 2
        if cost(middle) <= usd_per_hour:
            low = middle
        else:
            high = middle - 1
    return low


def size_of_machines(question: PlanQuestion, machines: int) -> Sizing:
    """What so many machines need around them, whatever their load."""
    weights_gb = question.profile.weights_gb
    assert weights_gb is not None
    return size(
        nodes=machines,
        machine=question.machine,
        weights_gb=weights_gb,
        requests_per_s=0.0,
        output_tokens_per_s=0.0,
        tokens_per_chunk=1.0,
        in_flight=0.0,
        gateway=question.routing == "inference-gateway",
    )
