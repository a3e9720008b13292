"""A plan and an impossible goal as outlines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from facts.cost import LineItem, format_indication
from facts.finding import Finding
from facts.machines import DEFAULT_MACHINE
from facts.texts import plural
from fleet.plan.plan import Plan
from fleet.plan.question.goals import Budget
from fleet.plan.report import document, market, plan_tables
from fleet.plan.words import (
    CAPACITIES,
    ROUTINGS,
    format_figure,
    format_goal,
    format_lengths,
    format_limits,
    format_mean_lengths,
    format_nodes,
    format_price_origin,
    format_span,
)
from fleet.report.outline import (
    Element,
    Findings,
    Items,
    Next,
    Number,
    Outline,
    Prose,
    Section,
    Tiles,
    some,
)
from fleet.report.words import (
    format_duration,
    format_milliseconds,
    format_number,
    format_percent,
    format_usd,
    sentence,
)

if TYPE_CHECKING:
    from fleet.plan.anywhere import Beside
    from fleet.plan.question.goals import PlanImpossibleError, PlanQuestion

_BASIS = {
    "fitted": "The model was fitted to this run.",
    "predicted": "Not fitted to this run, but within the article's measured range.",
    "extrapolated": "Outside the measured range in these respects. Each widens every interval.",
    "calibrated": "Compared with runs on this GPU; within the factor.",
    "estimated": "A roofline for this class of models, compared with public measurements; within the factor.",
    "upper bound": "Nothing was measured on this GPU. Real throughput will be lower, and latency higher, than these figures.",
}
_STARTS = {"nothing": "nothing", "cluster": "a cluster without weights", "weights": "a cluster with weights"}


def outline(plan: Plan, *, written: Sequence[str] = (), commands: Sequence[str] = ()) -> Outline:
    """The plan. `written`: the files that `--write` created from it; `commands`: what to type next."""
    question = plan.question
    ending: tuple[Element, ...] = (Next("add --write STACK", "to write the stack file"),)
    if written:
        ending = (Prose(f"Written: {', '.join(written)}"), *(Next(command) for command in commands))
    return Outline(
        title=_goal(question),
        kind=f"plan, {plan.label}",
        verdict=_answer(plan),
        tone="strong",
        head=(
            Prose(
                "; ".join(
                    (
                        f"`{question.profile.model}`, profile `{question.profile.name}`, vLLM {question.profile.engine_version}",
                        format_lengths(question.workload),
                        *format_limits(question),
                    )
                ),
                "soft",
            ),
            Tiles(tuple(_numbers(plan))),
        ),
        body=(
            *some(
                _notes(plan) if plan.remarks else None,
                Section(title="Batch", body=(Tiles(tuple(_batch(plan))),)) if plan.batch else None,
                Section(title="Limits", body=(Findings(tuple(_limits(plan))),)) if plan.verdicts else None,
                _performance(plan),
                _prices(plan),
            ),
            _cost(plan),
            _way(plan),
            Section(title="Infrastructure", body=(plan_tables.sizing(plan),), id="sizing"),
            _confidence(plan),
            *ending,
        ),
        footer=(
            "Computed offline from published figures, a fitted model and dated list prices. Nothing here was measured on your "
            "fleet. The model and its errors: `docs/planner-model.md`; sources of every figure: `docs/provenance.md`.",
        ),
        data=document.plan_document(plan),
    )


def impossible(error: PlanImpossibleError, question: PlanQuestion, beside: Beside) -> Outline:
    """Why no fleet of this machine reaches the goal, the nearest possible one, and what else reaches it."""
    finding = Finding(
        id="goal-out-of-reach",
        subject=_goal(question),
        found=f"{question.machine.type}: {error.why}",
        write="; or ".join((error.nearest, *format_beside(beside))),
    )
    return Outline(title=_goal(question), kind="plan", body=(finding,), data=document.no_plan_document(question))


def format_beside(beside: Beside) -> Iterator[str]:
    """What reaches the goal instead, one phrase each."""
    if beside.as_engine is not None:
        found = beside.as_engine
        nodes = format_nodes(found.machines, found.question.machine, found.gpus)
        yield f"as one engine, without the losses of the article's fleet: {nodes} (--sized-as engine)"
    if beside.offer is not None:
        what = "the same machine" if beside.is_same_machine else "another machine"
        yield f"{what}: {market.format_offer(beside.offer)} ({market.format_choice(beside.offer)})"


def _goal(question: PlanQuestion) -> str:
    return f"{format_goal(question)}, {format_mean_lengths(question.workload)}"


# The head -------------------------------------------------------------------------------------------------------------


def _answer(plan: Plan) -> str:
    """The plan in one sentence."""
    bound = ""
    if isinstance(plan.question.goal, Budget):
        bound = "at most " if plan.money.at_least else ""
    elif plan.basis == "upper bound":
        bound = "at least "
    nodes = format_nodes(plan.machines, plan.question.machine, plan.gpus)
    behind = ROUTINGS["router" if plan.question.routers else plan.deployment.routing]
    priced = plan.money.usd_per_node_hour is not None
    bought = (
        f": {plan.money.bill.format_hourly_total(indicates=True)}"
        if priced
        else "; the price of a node-hour is unknown"
    )
    return f"{bound}{nodes}, {CAPACITIES[plan.question.capacity]}, behind {behind}{bought}"


def _numbers(plan: Plan) -> Iterator[Number]:
    money, now, most = plan.money, plan.performance, plan.maximum
    least = ", at least" if money.at_least else ""
    unknown = plural(len(money.bill.unknown), "price") + " unknown" if money.at_least else ""
    yield Number(
        name="nodes",
        now=f"{plan.machines:,}",
        more=f"{plan.nodes:,} needed, {plural(plan.spares, 'spare')}",
    )
    node_hour = money.usd_per_node_hour
    if node_hour is None:
        yield Number(name="an hour", now="unknown", more="no dated price of a node-hour is known")
    else:
        yield Number(name=f"an hour{least}", now=format_usd(money.usd_per_hour), more=unknown)
    price = plan_tables.price_of(plan)
    if price is None:
        yield Number(name="a million tokens", now="unknown", more="no price of a node-hour")
    else:
        full = f"; at full load {format_usd(money.at_full_load.total_usd)}" if money.at_full_load else ""
        yield Number(
            name=f"a million tokens{least}",
            now=format_usd(price.total_usd),
            more=f"{format_usd(price.output_usd)} over output tokens alone{full}",
        )
    for name, here, full_load in (
        ("requests/s", now.requests_per_s, most.requests_per_s),
        ("tok/s total", now.total_tokens_per_s, most.total_tokens_per_s),
        ("tok/s output", now.output_tokens_per_s, most.output_tokens_per_s),
    ):
        yield Number(
            name=name,
            now=format_number(here.value),
            more=f"{format_span(here)}; at full load {format_number(full_load.value)}",
        )
    yield Number(
        name="mean time to first token (TTFT)",
        now=format_milliseconds(now.ttft_ms.value),
        more=f"{format_span(now.ttft_ms, format_milliseconds)}; 99th percentile {format_milliseconds(now.ttft_p99_ms.value)}",
    )
    yield Number(
        name="mean time per token (TPOT)",
        now=format_milliseconds(now.tpot_ms.value),
        more=format_span(now.tpot_ms, format_milliseconds),
    )
    yield from _readings(plan)
    yield Number(
        name="load",
        now=format_percent(plan.utilisation, 0),
        more=f"of full load on {plural(plan.nodes, 'node')}",
    )
    way = plan.time_to_serve
    yield Number(
        name="time to first response",
        now=format_duration(way.likely_seconds),
        more=f"{format_duration(way.low_seconds)} to {format_duration(way.high_seconds)}",
    )
    ways = plural(len(plan.reasons), "difference") + " from the measured range" if plan.reasons else ""
    yield Number(name="confidence", now=plan.label, more=ways)


def _readings(plan: Plan) -> Iterator[Number]:
    """Which reading the plan is sized for, and what the other would be."""
    if plan.question.reading == "engine":
        yield Number(
            name="sized as",
            now="engine",
            more="one alone, without the wait and the host time of the article's fleet (--sized-as fleet)",
        )
        return
    now = plan.performance
    rate, ttft, tpot = plan.maximum.total_tokens_per_s.as_engine, now.ttft_ms.as_engine, now.tpot_ms.as_engine
    if rate is None or ttft is None or tpot is None:
        return
    fewer = plan.nodes_as_engine
    nodes = (
        f"{plural(fewer, 'node')} would do (--sized-as engine); " if fewer is not None and fewer < plan.nodes else ""
    )
    yield Number(
        name="sized as",
        now="fleet",
        more=f"the article's, with its wait and host time. As one engine: {nodes}at full load {format_number(rate)} tok/s, "
        f"TTFT {format_milliseconds(ttft)}, TPOT {format_milliseconds(tpot)}",
    )


def _batch(plan: Plan) -> Iterator[Number]:
    """Duration and cost of a batch."""
    batch = plan.batch
    if batch is None:
        return
    least = ", at least" if plan.money.at_least else ""

    def hours(count: float) -> str:
        return format_duration(count * 3_600)

    deadline = "no deadline" if batch.deadline_hours is None else f"deadline {hours(batch.deadline_hours)}"
    yield Number(name="total duration", now=hours(batch.total_hours), more=deadline)
    yield Number(name="start-up", now=hours(batch.start_hours), more="likely")
    spread = (
        f"{hours(batch.work_low_hours)} to {hours(batch.work_high_hours)}"
        if batch.work_low_hours != batch.work_high_hours
        else ""
    )
    yield Number(name="processing", now=hours(batch.work_hours), more=spread)
    yield Number(
        name="documents",
        now=f"{batch.documents:,}",
        more=f"{format_number(batch.input_tokens)} tokens in, {format_number(batch.output_tokens)} out; "
        f"{format_number(batch.in_flight)} in parallel",
    )
    if batch.usd is None:
        yield Number(name="the whole batch", now="unknown", more="no dated price of a node-hour is known")
    else:
        yield Number(name=f"the whole batch{least}", now=format_usd(batch.usd))
    yield Number(
        name=f"afterwards, at 0 replicas{least}",
        now=format_usd(batch.usd_per_hour_after),
        more="an hour, until the stack is destroyed",
    )


def _notes(plan: Plan) -> Section:
    return Section(title=f"Notes ({len(plan.remarks)})", body=(Items(plan.remarks),), id="remarks", tone="warn")


def _limits(plan: Plan) -> Iterator[Finding]:
    for verdict in plan.verdicts:
        yield Finding(
            id=f"limit-{verdict.name.lower().replace(' ', '-')}",
            subject=verdict.name,
            severity="passed" if verdict.holds else "warning",
            found=f"{format_milliseconds(verdict.expected_ms)} expected, {format_milliseconds(verdict.high_ms)} at the high end",
            allowed=f"at most {format_milliseconds(verdict.limit_ms)}",
        )


# Sections -------------------------------------------------------------------------------------------------------------


def _performance(plan: Plan) -> Section:
    shortest = plan.maximum.shortest_prompt_with_cache_hit_tokens
    caching = (
        f"Prompts that share a prefix can hit the cache from {format_number(shortest)} tokens."
        if shortest
        else "Prefix caching is off."
    )
    said = f"Limiting factor at full load: {plan.maximum.limited_by}. {caching}"
    return Section(title="Performance", body=(plan_tables.performance(plan), Prose(said, "soft")), id="readings")


def _prices(plan: Plan) -> Section:
    return Section(title="Price per million tokens", body=(plan_tables.apis(plan),), id="prices")


def _cost(plan: Plan) -> Section:
    money, bill = plan.money, plan.money.bill
    least = "at least " if money.at_least else ""
    if money.usd_per_node_hour is None:
        said = f"Cost an hour and per million tokens unknown: {bill.format_hourly_total()}."
    else:
        said = f"A node-hour: {format_usd(money.usd_per_node_hour)} ({format_price_origin(bill.nodes)})."
    said += (
        f" A month of 730 hours, running {plan.question.duty.hours_per_week:g} hours a week: "
        f"{least}{format_usd(money.usd_per_month)}."
    )
    after = (
        f"At 0 replicas: {_left(bill.residual_items, 'hour')}. After the stack is destroyed: "
        f"{_left(bill.after_destroy_items, 'month')}."
    )
    excluded = f"Not included: {'; '.join(bill.excluded)}."
    return Section(
        title="Cost",
        remark=f"{plural(len(bill.unknown), 'price')} unknown" if bill.unknown else "",
        body=(
            Prose(said),
            Prose(after),
            Prose(excluded, "soft"),
        ),
        id="bill",
    )


def _left(items: Sequence[LineItem], per: Literal["hour", "month"]) -> str:
    """Sum of a bill's items: known prices added, unknown ones listed."""
    amounts = [item.usd_per_hour if per == "hour" else item.usd_per_month for item in items]
    known = [amount for amount in amounts if amount is not None]
    unknown = [item.name for item, amount in zip(items, amounts, strict=True) if amount is None]
    parts = [f"{format_usd(sum(known))} {'an' if per == 'hour' else 'a'} {per}"] if known else []
    if unknown:
        near = format_indication(tuple(items)) if per == "hour" else ""
        parts.append(f"items without a dated price ({', '.join(unknown)}{f'; {near}' if near else ''})")
    return " and ".join(parts) or "nothing"


def _way(plan: Plan) -> Section:
    way, restart = plan.time_to_serve, plan.restart
    machine = plan.question.machine
    steps = plan_tables.steps_to_serve(way, "A4" if machine == DEFAULT_MACHINE else machine.type)
    said = (
        f"Restart of one node, cluster and weights in place: {format_duration(restart.likely_seconds)} "
        f"({format_duration(restart.low_seconds)} to {format_duration(restart.high_seconds)}). There is no upper bound while nodes "
        "are out of stock."
    )
    return Section(
        title=f"Time to first response, starting from {_STARTS[plan.question.starts_from]}",
        remark=f"{format_duration(way.likely_seconds)}, {format_duration(way.low_seconds)} to {format_duration(way.high_seconds)}",
        body=(
            steps,
            Prose(said),
        ),
        id="way",
    )


def _confidence(plan: Plan) -> Section:
    match = plan.published
    nearest = f"`{match.figure.id}`, {match.figure.title}, " if match.figure else ""
    measured = f"{format_figure(match.figure)} ({match.figure.label}); " if match.figure else ""
    return Section(
        title="Confidence",
        remark=plan.label,
        body=(
            Prose(f"{sentence(plan.basis)} {_BASIS[plan.basis]}"),
            *some(Items(tuple(plan.reasons)) if plan.reasons else None),
            Prose(f"Nearest published row: {nearest}{measured}{match.reason}."),
        ),
        id="sure",
    )
