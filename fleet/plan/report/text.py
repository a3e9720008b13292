"""Print a plan or a comparison to a terminal at least 60 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from facts.machines import DEFAULT_MACHINE
from fleet.plan.words import (
    CAPACITIES,
    ROUTINGS,
    format_figure,
    format_goal,
    format_mean_lengths,
    format_nodes,
    format_price_origin,
    format_quota,
    format_span,
)
from fleet.report.terminal import Page, Paper, Part
from fleet.report.words import format_duration, format_number, format_percent, format_usd, plural

if TYPE_CHECKING:
    from facts.time_to_serve import Step
    from fleet.plan.model.estimates import Estimate
    from fleet.plan.plan import Alternative, Plan
    from fleet.plan.question.goals import PlanQuestion

_LABEL = 20
"""Width of a line's label, in columns."""
_SHORTEST_BAR = 12
"""Narrowest bar worth drawing, in columns."""
_STEP = 43
"""Width of a start-up step's title, in columns."""


def print_plan(paper: Paper, plan: Plan, *, written: str | None = None) -> None:
    """Print the plan to `paper`; `written` is the stack that `--write` created from it."""
    page = Page(paper)
    _headline(page, plan)
    if plan.batch is not None:
        _batch(page, plan)
    _does(page, plan)
    _limits(page, plan)
    _money(page, plan)
    _around(page, plan)
    _start(page, plan)
    _sure(page, plan)
    if plan.remarks:
        page.title(f"Notes ({len(plan.remarks)})")
        for remark in plan.remarks:
            page.item(remark)
    page.blank()
    if written is None:
        page.pointer("add --write STACK to write the stack file")
    else:
        page.pointer(f"fleet preview --stack {written}")
    page.print()


def print_comparison(paper: Paper, alternatives: Sequence[Alternative]) -> None:
    """Print one line per alternative, then why some have no price or no plan."""
    page = Page(paper)
    first = next((one.plan for one in alternatives if one.plan is not None), None)
    if first is not None:
        page.line((_goal(first.question), "bold"))
        page.prose(
            f"list prices of {first.question.region}, profile {first.question.profile.name}, "
            f"{100 * first.question.load_share:.0f} % of full load, {first.label}",
            indent=0,
        )
    page.blank()
    columns = (
        ("capacity", "<12"),
        ("routing", "<11"),
        ("nodes", ">6"),
        ("USD/h", ">10"),
        ("USD/M", ">7"),
        ("out", ">7"),
        ("TPOT", ">7"),
    )
    page.table(columns, [tuple(_row(one)) for one in alternatives], indent=0)
    page.title("How to read this")
    page.prose(
        "USD/M: USD per million input and output tokens at the goal's load. out: the full cost divided by output tokens alone."
    )
    page.prose("?: no dated price of a node-hour is known; pass yours with --capacity and --usd-per-node-hour.")
    if any(one.plan is not None and one.plan.money.at_least for one in alternatives):
        page.prose("Every amount is a lower bound: some prices are unknown. The plan for a single capacity lists them.")
    for one in alternatives:
        if one.why_not is not None:
            page.prose(f"{one.capacity}, behind {ROUTINGS[one.routing]}: {one.why_not}", mark="· ", style="yellow")
    page.print()


def _row(one: Alternative) -> Iterator[Part]:
    yield one.capacity
    yield "gateway" if one.routing == "inference-gateway" else "Service"
    if one.plan is None:
        yield "no plan", "yellow"
        return
    money = one.plan.money
    yield f"{one.plan.machines:,}", "bold"
    if money.at_load is None:
        yield from [("?", "dim")] * 3
    else:
        yield f"{money.usd_per_hour:,.0f}", "bold cyan"
        yield f"{money.at_load.total_usd:.3f}"
        yield f"{money.at_load.output_usd:.3f}"
    yield f"{one.plan.performance.tpot_ms.value:,.0f} ms", "dim"


# A plan, section by section -------------------------------------------------------------------------------------------


def _headline(page: Page, plan: Plan) -> None:
    question, money = plan.question, plan.money
    page.heading(_goal(question), plan.label)
    page.blank()
    spares = f" and {plural(plan.spares, 'spare')}" if plan.spares else ""
    least = "at least " if plan.basis == "upper bound" else ""
    page.prose(
        f"{least}{format_nodes(plan.nodes, question.machine, plan.gpus, spares)} on {CAPACITIES[question.capacity]}, "
        f"behind {ROUTINGS[question.routing]}",
        indent=0,
        style="bold cyan",
    )
    page.prose(
        f"{question.profile.model}, vLLM {question.profile.engine_version}, profile {question.profile.name}", indent=0
    )
    total, output = plan.performance.total_tokens_per_s.value, plan.performance.output_tokens_per_s.value
    price = (
        f"{_least(plan)}{format_usd(money.usd_per_hour)} an hour" if money.at_load else money.bill.format_hourly_total()
    )
    page.prose(f"{total:,.0f} tok/s total · {output:,.0f} tok/s output · {price}", indent=0, style="bold cyan")


def _batch(page: Page, plan: Plan) -> None:
    batch = plan.batch
    assert batch is not None
    page.title("Batch")
    _line(page, "documents", f"{batch.documents:,}, {batch.in_flight:,.0f} in parallel")
    _line(page, "tokens", f"{batch.input_tokens:,.0f} in, {batch.output_tokens:,.0f} out")
    deadline = f" (deadline {_hours(batch.deadline_hours)})" if batch.deadline_hours is not None else ""
    _line(page, "duration", f"{_hours(batch.total_hours)}{deadline}", style="bold")
    _line(page, "  start-up", _hours(batch.start_hours))
    _line(
        page,
        "  processing",
        f"{_hours(batch.work_hours)} ({_hours(batch.work_low_hours)} to {_hours(batch.work_high_hours)})",
    )
    if batch.usd is not None and batch.usd_per_million is not None:
        _line(page, "cost", f"{_least(plan)}{format_usd(batch.usd)}", style="bold")
        _line(
            page,
            "  a million tokens",
            f"{format_usd(batch.usd_per_million.total_usd)} total, {format_usd(batch.usd_per_million.output_usd)} output",
        )
    else:
        _line(page, "cost", "unknown: no price of a node-hour")
    _line(
        page,
        "afterwards",
        f"at 0 replicas {_least(plan)}{format_usd(batch.usd_per_hour_after)} an hour; once destroyed, only the weights image",
    )


def _does(page: Page, plan: Plan) -> None:
    load = "at full load" if plan.batch is not None else f"at the goal, {100 * plan.utilisation:.0f} % of full load"
    page.title("Performance", load)
    now, most = plan.performance, plan.maximum
    rows: tuple[tuple[str, Estimate, Estimate], ...] = (
        ("tok/s total", now.total_tokens_per_s, most.total_tokens_per_s),
        ("tok/s output", now.output_tokens_per_s, most.output_tokens_per_s),
        ("requests/s", now.requests_per_s, most.requests_per_s),
        ("in flight", now.in_flight, most.in_flight),
        ("TTFT, ms", now.ttft_ms, most.ttft_ms),
        ("TTFT p99, ms", now.ttft_p99_ms, most.ttft_p99_ms),
        ("TPOT, ms", now.tpot_ms, most.tpot_ms),
        ("ITL, ms", now.itl_ms, most.itl_ms),
        ("KV cache, %", now.kv_cache_peak_percent, most.kv_cache_peak_percent),
    )
    if now.watts_per_gpu is not None and most.watts_per_gpu is not None:
        rows += (("watts per GPU", now.watts_per_gpu, most.watts_per_gpu),)
    page.table(
        (
            ("", "<13"),
            ("at best" if plan.basis == "upper bound" else "expected", ">11"),
            ("low to high", ">22"),
            ("full load", ">12"),
        ),
        (
            (label, (format_number(here.value), "bold"), (_range(here), "dim"), format_number(full.value))
            for label, here, full in rows
        ),
    )
    if now.joules_per_million_tokens is not None and now.peak_watts_per_gpu is not None:
        energy, peaks = now.joules_per_million_tokens.value / 3.6e6, now.peak_watts_per_gpu
        page.prose(
            f"GPUs alone: {plan.kilowatts:,.1f} kW, {energy * 1000:,.1f} Wh per million tokens; measured peaks "
            f"{peaks[0]:.0f} to {peaks[1]:.0f} W per GPU.",
            style="dim",
        )


def _limits(page: Page, plan: Plan) -> None:
    for verdict in plan.verdicts:
        holds = verdict.holds
        page.prose(
            f"{verdict.name} within {verdict.limit_ms:,.0f} ms: {verdict.expected_ms:,.0f} expected, {verdict.high_ms:,.0f} at the "
            "high end",
            mark="✓ " if holds else "✗ ",
            mark_style="green" if holds else "red",
        )


def _money(page: Page, plan: Plan) -> None:
    money, duty = plan.money, plan.question.duty
    page.title("Cost", f"{plural(len(money.bill.unknown), 'price')} unknown" if money.at_least else "")
    if money.at_load is None or money.at_full_load is None:
        page.prose("No price of a node-hour is known, so the cost an hour and per million tokens is unknown.")
        return
    least = _least(plan)
    if plan.batch is None:
        hours = "730 hours" if duty.share == 1 else f"{duty.hours_per_week:g} of 168 hours a week"
        _line(page, "a month", f"{least}{format_usd(money.usd_per_month)} ({hours})")
        for label, amount in (("a million tokens", money.at_load), ("  at full load", money.at_full_load)):
            _line(page, label, f"{least}{format_usd(amount.total_usd)} total, {format_usd(amount.output_usd)} output")
    _line(
        page, "a node-hour", f"{format_usd(money.usd_per_node_hour or 0.0)} ({format_price_origin(money.bill.nodes)})"
    )
    _apis(page, plan)


def _apis(page: Page, plan: Plan) -> None:
    batch = plan.batch
    what = "cost of the same tokens" if batch is not None else "break-even load"
    rows = []
    for api in plan.money.apis:
        share = api.break_even_utilisation
        assert share is not None
        if batch is not None:
            text = format_usd(api.usd_per_million * (batch.input_tokens + batch.output_tokens) / 1e6)
        else:
            text = "never" if share > 1 else f"{format_percent(share)} of full load"
        rows.append((api.price.name, f"{api.usd_per_million:.2f}", "", text))
    page.table((("APIs, this mix", "<22"), ("USD/M", ">8"), ("", "3"), (what, "")), rows)


def _around(page: Page, plan: Plan) -> None:
    sizing, capacity = plan.sizing, plan.question.capacity
    page.title("Infrastructure")
    _line(page, "quota to request", format_quota(capacity, sizing.quota_gpus, plan.question.machine))
    _line(page, "spares", f"{plan.spares}: {plan.spares_why}" if plan.spares else plan.spares_why)
    copies = f" in {sizing.volume_copies} copies" if sizing.volume_copies > 1 else ""
    _line(page, "weights volume", f"{sizing.volume_gib:,} GiB, {sizing.volume_mibps:,} MiB/s{copies} (Hyperdisk ML)")
    ranges = sizing.ranges
    proxy = f", proxy-only /{ranges.proxy_only_prefix}" if ranges.proxy_only_prefix is not None else ""
    _line(
        page,
        "smallest IP ranges",
        f"nodes /{ranges.nodes_prefix}, pods /{ranges.pods_prefix}, Services /{ranges.services_prefix}{proxy}",
    )
    _line(page, "NAT ports per VM", f"{sizing.nat_ports_per_vm:,} or more")
    _line(
        page,
        "benchmark",
        f"{plural(sizing.benchmark_clients, 'client')} with {sizing.benchmark_connections:,} connections on "
        f"{plural(sizing.benchmark_nodes, sizing.benchmark_machine)}",
    )
    _line(page, "gateway", sizing.gateway.text)


def _start(page: Page, plan: Plan) -> None:
    way = plan.time_to_serve
    page.title(
        "Time to first response",
        f"{way.likely_seconds / 60:.0f} min, {way.low_seconds / 60:.0f} to {way.high_seconds / 60:.0f}",
    )
    width = page.width - _STEP - 12
    for step in way.critical_path:
        page.line(
            f"  {_title(plan, step):<{_STEP}}",
            (f"{_minutes(step.likely_seconds):>8}", "bold"),
            (_bar(step, way.likely_seconds, width) if width >= _SHORTEST_BAR else "", "cyan"),
        )
    if way.levers:
        best = ", ".join(f"{lever.title} ({lever.saves_seconds / 60:.0f} min)" for lever in way.levers[:3])
        page.prose(f"To shorten it: {best}.", style="dim")
    page.prose(f"Restart of one node, weights in place: {plan.restart.likely_seconds / 60:.0f} min.", style="dim")


def _title(plan: Plan, step: Step) -> str:
    machine = plan.question.machine
    return step.title if machine == DEFAULT_MACHINE else step.title.replace("A4 node", f"{machine.type} node")


def _sure(page: Page, plan: Plan) -> None:
    page.title("Confidence", plan.label)
    if plan.reasons:
        if not plan.deployment_is_estimated:
            page.prose("Outside the measured range; each item widens the interval:")
        for reason in plan.reasons:
            page.item(reason)
    else:
        page.prose("Within the measured range; docs/planner-model.md lists the error on every row.")
    match = plan.published
    if match.figure is None:
        page.prose(f"Published: {match.reason}.", style="dim")
    elif match.kind == "unproven":
        page.prose(
            f"Nearest {match.figure.origin}: {match.figure.title}, {format_figure(match.figure)} ({match.figure.label}); {match.reason}.",
            style="dim",
        )
    else:
        page.prose(
            f"{match.figure.origin.capitalize()}: {format_figure(match.figure)} ({match.figure.label}); {match.reason}.",
            style="dim",
        )


def _line(page: Page, label: str, text: str, style: str = "") -> None:
    page.prose(text, mark=f"{label:<{_LABEL}}", mark_style="dim", style=style)


def _goal(question: PlanQuestion) -> str:
    return f"{format_goal(question)}, {format_mean_lengths(question.workload)}"


def _range(estimate: Estimate) -> str:
    return "as given" if estimate.low == estimate.high else format_span(estimate)


def _least(plan: Plan) -> str:
    return "at least " if plan.money.at_least else ""


def _hours(hours: float) -> str:
    return format_duration(hours * 3_600)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def _bar(step: Step, whole_seconds: float, width: int) -> str:
    before = round(step.begins_seconds / whole_seconds * width)
    return "  " + " " * before + "─" * max(1, round(step.likely_seconds / whole_seconds * width))
