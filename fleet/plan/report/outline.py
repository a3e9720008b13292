"""A plan and an impossible goal as outlines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from facts.cost import format_indication
from facts.finding import Finding
from facts.texts import plural
from fleet.plan.plan import PerMillion, Plan
from fleet.plan.question.goals import Budget
from fleet.plan.report import document, market
from fleet.plan.words import (
    CAPACITIES,
    ROUTINGS,
    format_figure,
    format_goal,
    format_lengths,
    format_mean_lengths,
    format_nodes,
    format_quota,
    format_span,
)
from fleet.report.outline import Element, Findings, Items, Next, Outline, Prose, Section, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_duration, format_milliseconds, format_number, format_percent, format_usd

if TYPE_CHECKING:
    from collections.abc import Callable

    from facts.cost import Bill
    from fleet.plan.anywhere import Offer
    from fleet.plan.model.estimates import Estimate
    from fleet.plan.question.goals import PlanImpossibleError, PlanQuestion

_ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("tok/s, input and output", "total_tokens_per_s", format_number),
    ("tok/s, output", "output_tokens_per_s", format_number),
    ("requests/s", "requests_per_s", format_number),
    ("time to first token (TTFT), mean", "ttft_ms", format_milliseconds),
    ("TTFT, 99th percentile", "ttft_p99_ms", format_milliseconds),
    ("time per output token (TPOT), mean", "tpot_ms", format_milliseconds),
    ("requests in flight", "in_flight", format_number),
    ("seconds per request", "seconds_per_request", format_number),
    ("running sequences per engine", "running_per_engine", format_number),
    ("KV cache in use at most, %", "kv_cache_peak_percent", format_number),
)


def outline(plan: Plan, *, command: str = "add", written: Sequence[str] = (), commands: Sequence[str] = ()) -> Outline:
    """The plan. `command`: what takes `--write`; `written`: the files that it created; `commands`: what to type next instead."""
    question = plan.question
    ending: tuple[Element, ...] = (Next(f"{command} --write STACK", "to write the stack file"),)
    if commands:
        ending = some(Prose(f"Written: {', '.join(written)}") if written else None, *map(Next, commands))
    count = len(plan.performance.reasons)
    differences = f", {plural(count, 'difference')}" if plan.performance.factor is None and count else ""
    about = [
        f"`{question.profile.model}`, profile `{question.profile.name}`, vLLM {question.profile.engine_version}",
        format_lengths(question.workload),
        *([str(question.limits)] if question.limits.given else []),
        f"{format_percent(plan.utilisation, 0)} of full load",
    ]
    return Outline(
        title=_goal(question),
        kind=f"plan, {plan.label}{differences}",
        verdict=_answer(plan),
        tone="strong",
        head=(Prose("; ".join(about), "soft"), _performance(plan)),
        body=(
            *some(Findings(tuple(_limits(plan))) if plan.verdicts else None),
            Section(title="Cost", body=(Items(tuple(_cost(plan))), _apis(plan)), id="cost"),
            Section(title="Start and infrastructure", body=(Items(tuple(_around(plan))),), id="infrastructure"),
            *some(
                Section(title="Notes", body=(Items(plan.remarks),), id="remarks", tone="warn") if plan.remarks else None
            ),
            Section(title="Confidence", remark=plan.label, body=(Items(tuple(_confidence(plan))),), id="confidence"),
            *ending,
        ),
        data=document.plan_document(plan),
    )


def impossible(error: PlanImpossibleError, question: PlanQuestion, beside: Offer | None) -> Outline:
    """Why no fleet of this machine reaches the goal, the nearest possible one, and what else reaches it."""
    finding = Finding(
        id="goal-out-of-reach",
        subject=_goal(question),
        found=f"{question.machine.type}: {error.why}",
        write="; or ".join((error.nearest, *format_beside(beside))),
    )
    return Outline(title=_goal(question), kind="plan", body=(finding,), data=document.no_plan_document(question))


def format_beside(offer: Offer | None) -> Iterator[str]:
    """What reaches the goal instead."""
    if offer is not None:
        yield f"{market.format_offer(offer)} ({market.format_choice(offer)})"


def _goal(question: PlanQuestion) -> str:
    return f"{format_goal(question)}, {format_mean_lengths(question.workload)}"


def _answer(plan: Plan) -> str:
    """The plan in one sentence."""
    bound = ""
    if isinstance(plan.question.goal, Budget):
        bound = "at most " if plan.money.at_least else ""
    elif plan.is_bound:
        bound = "at least "
    nodes = format_nodes(plan.nodes, plan.question.machine, plan.gpus)
    bought = f"{CAPACITIES[plan.question.capacity]} in {plan.question.region}"
    if plan.money.usd_per_node_hour is None:
        price = "; the price of a node-hour is unknown"
    else:
        price = f": {plan.money.bill.format_hourly_total(indicates=True)}"
    return f"{bound}{nodes}, {bought}, behind {ROUTINGS[plan.deployment.routing]}{price}"


def _performance(plan: Plan) -> Table:
    """Throughput, latency and memory at the planned load and at full load."""
    planned = "at best" if plan.is_bound else "planned"
    return Table(
        id="performance",
        caption="Throughput, latency and memory at the planned load and at full load",
        columns=(*texts("reading"), *numbers(planned, "low to high", "full load")),
        rows=tuple(
            (Cell(title), *map(Cell, _reading(getattr(plan.performance, name), getattr(plan.maximum, name), format_)))
            for title, name, format_ in _ROWS
        ),
    )


def _reading(now: Estimate | float, full: Estimate | float, format_: Callable[[float], str]) -> Iterator[str]:
    yield format_(now if isinstance(now, float | int) else now.value)
    yield "" if isinstance(now, float | int) else format_span(now, format_)
    yield format_(full if isinstance(full, float | int) else full.value)


def _limits(plan: Plan) -> Iterator[Finding]:
    for verdict in plan.verdicts:
        yield Finding(
            id=f"limit-{verdict.name.lower().replace(' ', '-')}",
            subject=verdict.name,
            severity="passed" if verdict.holds else "warning",
            found=f"{format_milliseconds(verdict.expected_ms)} expected, {format_milliseconds(verdict.high_ms)} at the high end",
            allowed=f"at most {format_milliseconds(verdict.limit_ms)}",
        )


def _cost(plan: Plan) -> Iterator[str]:
    money, bill = plan.money, plan.money.bill
    least = "at least " if money.at_least else ""
    if (batch := plan.batch) is not None:
        cost = "unknown" if batch.usd is None else f"{least}{format_usd(batch.usd)}"
        deadline = "" if batch.deadline_hours is None else f", deadline {_hours(batch.deadline_hours)}"
        yield (
            f"the whole batch: {cost}, in {_hours(batch.total_hours)}{deadline}: start-up {_hours(batch.start_hours)}, processing "
            f"{_hours(batch.work_hours)} ({_hours(batch.work_low_hours)} to {_hours(batch.work_high_hours)})"
        )
    price = batch.usd_per_million if batch else money.at_load
    if price is not None:
        full = f"; {least}{_per_million(money.at_full_load)} at full load" if money.at_full_load and not batch else ""
        yield f"a million tokens: {least}{_per_million(price)}{full}"
    if money.usd_per_node_hour is not None:
        listed = bill.nodes.price
        origin = (
            f"list price of {listed.region}, {listed.date}"
            if listed
            else f"stated, not a list price{_of_priorities(bill)}"
        )
        yield f"a node-hour: {format_usd(money.usd_per_node_hour)} ({origin}); a month: {least}{format_usd(money.usd_per_month)}"
    unknown = sum(item.usd_per_hour is None for item in bill.residual_items)
    left = ", ".join(
        filter(None, (f"{plural(unknown, 'price')} unknown" if unknown else "", format_indication(bill.residual_items)))
    )
    at_zero = "at least " if unknown else ""
    yield f"at 0 replicas: {at_zero}{format_usd(bill.residual_usd_per_hour)} an hour{f' ({left})' if left else ''}"


def _of_priorities(bill: Bill) -> str:
    """Which of the machine priorities' prices it is, where those differ."""
    if len(set(bill.nodes.steps.values())) < 2:
        return ""
    return f"; each node at its dearest machine priority: {', '.join(f'{way} {_usd(usd)}' for way, usd in bill.nodes.steps.items())}"


def _per_million(price: PerMillion) -> str:
    return f"{format_usd(price.total_usd)} ({format_usd(price.output_usd)} over output tokens alone)"


def _hours(hours: float) -> str:
    return format_duration(3_600 * hours)


def _apis(plan: Plan) -> Table:
    """API prices and the load from which the fleet is cheaper."""
    return Table(
        id="apis",
        caption="API prices and break-even load",
        columns=(*texts("API"), *numbers("per million in", "out", "this mix", "break-even load")),
        rows=tuple(
            (
                Cell(one.price.name),
                Cell(_usd(one.price.usd_per_million_input)),
                Cell(_usd(one.price.usd_per_million_output)),
                Cell(f"{'' if one.exact_mix else '~'}{format_usd(one.usd_per_million)}"),
                Cell(_break_even(one.break_even_utilisation)),
            )
            for one in plan.money.apis
        ),
    )


def _usd(price: float | None) -> str:
    return "unknown" if price is None else format_usd(price)


def _break_even(share: float | None) -> str:
    if share is None:
        return "unknown"
    return "never" if share > 1 else f"{100 * share:.1f} % of full load"


def _around(plan: Plan) -> Iterator[str]:
    way, restart, sizing = plan.time_to_serve, plan.restart, plan.sizing
    yield (
        f"first response after {format_duration(way.likely_seconds)} ({format_duration(way.low_seconds)} to "
        f"{format_duration(way.high_seconds)}); restart of a node after {format_duration(restart.likely_seconds)}. While nodes are out of "
        "stock there is no upper bound"
    )
    yield f"GPU quota: {format_quota(plan.question.capacity, sizing.quota_gpus, plan.question.machine)}"
    copies = f", {plural(sizing.volume_copies, 'volume')}" if sizing.volume_copies > 1 else ""
    yield f"weights: Hyperdisk ML of {sizing.volume_gib:,} GiB and {sizing.volume_mibps:,} MiB/s{copies}"
    yield (
        f"network: nodes /{sizing.ranges.nodes_prefix}, pods /{sizing.ranges.pods_prefix}, services /{sizing.ranges.services_prefix}, "
        f"{sizing.nat_ports_per_vm:,} NAT ports per VM"
    )
    yield f"to verify the plan: {plural(sizing.benchmark_clients, 'benchmark client')}"


def _confidence(plan: Plan) -> Iterator[str]:
    yield from plan.performance.reasons
    match = plan.published
    if match.figure is not None:
        yield f"nearest published row, {match.kind}: {match.figure.title}, {format_figure(match.figure)}"
    else:
        yield f"no published row: {match.reason}"
