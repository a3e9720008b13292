"""The most nodes within an hourly budget, spares and infrastructure included."""

from __future__ import annotations

from collections.abc import Callable

from facts.sizing import Sizing, size
from facts.texts import plural
from fleet.plan.money import bill_of, node_hour_usd
from fleet.plan.question.goals import MOST_MACHINES, PlanImpossibleError, PlanQuestion
from fleet.report.words import format_usd


def machines_within(
    question: PlanQuestion, usd_per_hour: float, *, fewest: int, machines_for: Callable[[int], int]
) -> int:
    """The most nodes whose bill is within the budget; `machines_for` adds spares.

    Raises PlanImpossibleError if even `fewest` cost more, or the nodes have no known price.
    """
    if node_hour_usd(question) is None:
        raise PlanImpossibleError(
            f"no dated price of a node-hour is known for {question.machine.type} as {question.capacity} in {question.region}, so "
            "a budget cannot be turned into nodes",
            "pass your price with --usd-per-node-hour, or choose one that `fleet prices` shows",
        )

    def cost(nodes: int) -> float:
        machines = machines_for(nodes)
        # Rounded to cents as in reports, so that the amount a plan shows buys that plan.
        return round(bill_of(question, size_of_machines(question, machines), machines).usd_per_hour_known, 2)

    if cost(fewest) > usd_per_hour:
        count = plural(machines_for(fewest), "node")
        raise PlanImpossibleError(
            f"{format_usd(usd_per_hour)} an hour is less than the smallest fleet costs ({count} and infrastructure)",
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
    """Infrastructure for that many machines, regardless of load."""
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
