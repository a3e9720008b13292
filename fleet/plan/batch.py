"""Duration and cost of a batch of documents, and what is billed afterwards."""

from __future__ import annotations

from facts.cost import SECONDS_PER_HOUR, Bill
from facts.time_to_serve import TimeToServe
from fleet.plan.model.performance import Performance
from fleet.plan.money import node_hour_usd
from fleet.plan.plan import BatchRun, PerMillion
from fleet.plan.question.goals import Batch, PlanQuestion


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
        in_flight=performance.in_flight,
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
