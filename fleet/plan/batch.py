"""Size and price a batch of documents: nodes for its deadline, cost, and what is billed afterwards."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from facts.cost import SECONDS_PER_HOUR, Bill
from facts.texts import plural
from facts.time_to_serve import TimeToServe
from fleet.plan.model.deployment import Deployment, OfferedLoad
from fleet.plan.model.fleet_rate import fleet_load
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.performance import Performance
from fleet.plan.model.roofline import planned
from fleet.plan.money import node_hour_usd
from fleet.plan.nodes_for import MOST_NODES
from fleet.plan.plan import BatchRun, PerMillion
from fleet.plan.question.goals import Batch, PlanImpossibleError, PlanQuestion
from fleet.report.words import format_duration

# For a missed deadline, suggest the fewest nodes within this factor of the shortest time.
_WORTH_A_NODE = 1.1


def batch_nodes(
    question: PlanQuestion,
    batch: Batch,
    one: Deployment,
    in_flight_per_node: float,
    start_seconds: Callable[[int], float],
) -> int:
    """The fewest nodes that finish the batch by its deadline, start-up included; the smallest fleet without a deadline.

    Raises PlanImpossibleError if no number of nodes does.
    """
    if batch.deadline_hours is None:
        return one.nodes
    deadline = batch.deadline_hours
    room, parameters = budget(one, question.workload), planned(one)

    def hours(nodes: int) -> float:
        offered = OfferedLoad(in_flight=min(in_flight_per_node * nodes, float(batch.documents)))
        load = fleet_load(one.with_nodes(nodes), question.workload, offered, parameters, room)
        work = batch.documents / (load.requests_per_s * question.load_share)
        return (start_seconds(nodes) + work) / SECONDS_PER_HOUR

    # Engines without a document would idle.
    most = min(MOST_NODES, max(one.nodes, ceil(batch.documents / one.engine.data_parallel)))
    tried = [one.nodes]
    while hours(tried[-1]) > deadline and tried[-1] < most:
        tried.append(min(most, 2 * tried[-1]))
    if hours(tried[-1]) > deadline:
        raise _too_late(batch, tried, hours, start_seconds)
    low, high = (tried[-2] + 1 if len(tried) > 1 else one.nodes), tried[-1]
    while low < high:
        middle = (low + high) // 2
        if hours(middle) > deadline:
            low = middle + 1
        else:
            high = middle
    return high


def _too_late(
    batch: Batch, tried: list[int], hours: Callable[[int], float], start_seconds: Callable[[int], float]
) -> PlanImpossibleError:
    best = min(hours(nodes) for nodes in tried)
    nodes = next(nodes for nodes in tried if hours(nodes) <= best * _WORTH_A_NODE)
    start = start_seconds(nodes) / SECONDS_PER_HOUR
    count = plural(nodes, "node")
    why = (
        f"{batch.documents:,} documents in {_format_hours(batch.deadline_hours or 0)}: with {count}, start-up takes {_format_hours(start)} "
        f"and processing {_format_hours(hours(nodes) - start)}; more nodes save little"
    )
    return PlanImpossibleError(
        why,
        f"{_format_hours(hours(nodes))} with {count}; with cluster and weights in place start-up is shorter "
        "(--starts-from weights)",
    )


def batch_run(
    question: PlanQuestion, batch: Batch, performance: Performance, bill: Bill, way: TimeToServe, restart: TimeToServe
) -> BatchRun:
    """Duration and cost of a batch at full load, planned at `load_share` of it as the deadline's margin.

    `way` is the start-up, `restart` the part of it in which nodes are billed.
    """
    workload, rate = question.workload, performance.requests_per_s
    work = _hours(batch, rate.value * question.load_share)
    start = way.likely_seconds / SECONDS_PER_HOUR
    input_tokens = batch.documents * workload.input_tokens.mean
    output_tokens = batch.documents * workload.output_tokens.mean
    low, high = _hours(batch, rate.high), max(work, _hours(batch, rate.low))
    nodes_usd = next(item for item in bill.items if item.id == "nodes").usd_per_hour or 0.0

    def cost(work: float) -> float | None:
        if node_hour_usd(question) is None:
            return None
        node_hours = min(start, restart.likely_seconds / SECONDS_PER_HOUR) + work
        return nodes_usd * node_hours + (bill.usd_per_hour_known - nodes_usd) * (start + work)

    usd = cost(work)
    return BatchRun(
        documents=batch.documents,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        in_flight=performance.in_flight.value,
        start_hours=start,
        work_hours=work,
        work_low_hours=low,
        work_high_hours=high,
        deadline_hours=batch.deadline_hours,
        usd=usd,
        usd_low=cost(low),
        usd_high=cost(high),
        usd_per_million=None
        if usd is None
        else PerMillion(total_usd=usd / (input_tokens + output_tokens) * 1e6, output_usd=usd / output_tokens * 1e6),
        usd_per_hour_after=bill.residual_usd_per_hour,
    )


def _hours(batch: Batch, requests_per_s: float) -> float:
    return batch.documents / requests_per_s / SECONDS_PER_HOUR


def _format_hours(hours: float) -> str:
    return format_duration(hours * SECONDS_PER_HOUR)
