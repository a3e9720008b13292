"""Data of a plan's charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from facts import figures
from facts.cost import node_price
from facts.texts import plural
from fleet.plan import planning
from fleet.plan.model.deployment import OfferedLoad
from fleet.plan.model.estimates import Estimate
from fleet.plan.model.performance import estimate
from fleet.plan.model.roofline import is_articles
from fleet.plan.plan import Alternative, Money, PerMillion, Plan
from fleet.plan.question.goals import CAPACITIES, PlanImpossibleError, way_of
from fleet.plan.report.memory_bar import Part, parts
from fleet.plan.report.prices import PriceRow
from fleet.plan.report.throughput import SERIES, Reading, Throughput
from fleet.plan.words import CAPACITIES as NAMES

_MOST_POINTS = 24
"""Most points on the curve; it bends little."""
_BEYOND = 1.15
"""How far the axis extends beyond the plan's node count."""


def throughput(plan: Plan) -> Throughput:
    """The fleet at other node counts, and the article's published points where they apply."""
    readings = tuple(_readings()) if is_articles(plan.deployment) else ()
    most = max(int(plan.nodes * _BEYOND) + 1, *(reading.nodes + 1 for reading in readings), plan.nodes + 2)
    return Throughput(
        curve=tuple((nodes, _at_full_load(plan, nodes)) for nodes in _counts(plan, most)),
        readings=readings,
        machine=plan.question.machine,
        nodes=plan.nodes,
        at_full_load=plan.maximum.total_tokens_per_s,
        planned=plan.performance.total_tokens_per_s.value,
    )


def _counts(plan: Plan, most: int) -> list[int]:
    fewest = 2 if plan.deployment.routing == "inference-gateway" else 1
    step = max(1, most // _MOST_POINTS)
    # Intervals widen beyond the measured node counts: draw both sides of that step.
    measured = (12, 13) if plan.deployment.routing == "cluster-ip" else (8, 9)
    return sorted({*range(fewest, most, step), *(one for one in measured if one <= most), plan.nodes, most})


def _at_full_load(plan: Plan, nodes: int) -> Estimate:
    load = OfferedLoad(in_flight=plan.in_flight_per_node * nodes)
    return estimate(plan.deployment.with_nodes(nodes), plan.question.workload, load).total_tokens_per_s


def _readings() -> Iterator[Reading]:
    for figure in figures.all_figures():
        file, _, row = figure.id.partition(".")
        if file in SERIES and row.startswith("nodes-") and figure.total_tokens_per_s:
            yield Reading(
                nodes=figure.shape.replicas,
                total_tokens_per_s=figure.total_tokens_per_s,
                series=file,
                label=figure.label,
            )


def prices(plan: Plan, alternatives: Sequence[Alternative]) -> tuple[PriceRow, ...]:
    """The plan, the same goal with other capacity, and APIs. Capacities without a known price share one row."""
    fleets = sorted(_fleets(plan, alternatives), key=lambda row: (row.usd_per_million is None, not row.chosen))
    rows: list[PriceRow] = []
    for unknown, found in groupby(fleets, key=lambda row: row.usd_per_million is None and not row.chosen):
        same = list(found)
        if unknown and len(same) > 1:
            same = [replace(same[0], name="; ".join(row.name for row in same))]
        rows += same
    return (*rows, *_apis(plan.money))


def _fleets(plan: Plan, alternatives: Sequence[Alternative]) -> Iterator[PriceRow]:
    yield _fleet(plan, chosen=True)
    others = {
        alternative.capacity: alternative.plan
        for alternative in alternatives
        if alternative.plan is not None and alternative.routing == plan.question.routing
    }
    for capacity in CAPACITIES:
        if capacity == plan.question.capacity or way_of(capacity) not in plan.question.machine.ways:
            continue
        if node_price(capacity, plan.question.region, plan.question.machine) is None:
            yield PriceRow(name=NAMES[capacity], kind="fleet", usd_per_million=None)
        elif other := others.get(capacity) or _bought_as(plan, capacity):
            yield _fleet(other, chosen=False)


def _bought_as(plan: Plan, capacity: str) -> Plan | None:
    try:
        return planning.plan(replace(plan.question, capacity=capacity, usd_per_node_hour=None))  # type: ignore[arg-type]
    except PlanImpossibleError:
        return None


def _fleet(plan: Plan, *, chosen: bool) -> PriceRow:
    name = f"{NAMES[plan.question.capacity]}, {plural(plan.machines, 'node')}"
    price, full = price_of(plan), plan.money.at_full_load
    if price is None:
        return PriceRow(name=name, kind="fleet", usd_per_million=None, chosen=chosen)
    ends = [price.total_usd, full.total_usd] if full and not plan.batch else []
    return PriceRow(
        name=name,
        kind="fleet",
        usd_per_million=price.total_usd,
        low=min(ends, default=None),
        high=max(ends, default=None),
        at_least=plan.money.at_least,
        chosen=chosen,
    )


def price_of(plan: Plan) -> PerMillion | None:
    """Price per million tokens at the planned load; a batch includes its start-up."""
    return plan.batch.usd_per_million if plan.batch else plan.money.at_load


def _apis(money: Money) -> Iterator[PriceRow]:
    for one in money.apis:
        yield PriceRow(name=f"{one.price.name} ({one.price.provider})", kind="api", usd_per_million=one.usd_per_million)


def memory(plan: Plan) -> tuple[Part, ...]:
    """One GPU's memory at the cache's peak."""
    return parts(
        plan.maximum.memory,
        used_percent=plan.maximum.kv_cache_peak_percent.value,
        workload=plan.question.workload,
    )
