"""Render a plan as one self-contained HTML page of charts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from facts.cost import LineItem
from fleet.plan.model.errors import errors
from fleet.plan.plan import Alternative, Plan
from fleet.plan.report import drawn, memory_bar, model_tables, plan_tables, prices, throughput, way_to_serve
from fleet.plan.words import CAPACITIES, ROUTINGS, format_goal, format_lengths, format_limits, format_nodes, format_span
from fleet.report.charts import drawing
from fleet.report.page import Number, picture, render
from fleet.report.rows import rows_drawing
from fleet.report.words import format_duration, format_milliseconds, format_number, format_percent, format_usd, plural

if TYPE_CHECKING:
    from markupsafe import Markup

    from fleet.plan.day.comparison import Comparison, Subject
    from fleet.report.table import Table

_FOLDER = Path(__file__).parent / "page"
_BASIS = {
    "fitted": "The model was fitted to this run.",
    "predicted": "Not fitted to this run, but within the article's measured range.",
    "extrapolated": "Outside the measured range in these respects. Each widens every interval.",
    "calibrated": "Compared with runs on this GPU; within the factor.",
    "estimated": "A roofline for this class of models, compared with public measurements; within the factor.",
    "upper bound": "Nothing was measured on this GPU. Real throughput will be lower, and latency higher, than these figures.",
}


def html_text(
    plan: Plan,
    alternatives: Sequence[Alternative] = (),
    week: tuple[Subject, Sequence[Comparison]] | None = None,
) -> str:
    """Render the page. `alternatives`: the same goal with other capacity and routing (`planning.compare`)."""
    parts = drawn.memory(plan)
    days: tuple[tuple[Markup, Table], ...] = ()
    day_remarks: tuple[str, ...] = ()
    if week is not None:
        from fleet.plan.report import day

        days = tuple((picture(partial(drawing, day.chart(one))), day.table(one)) for one in week[1])
        day_remarks = tuple(day.remarks(week[0]))
    pictures = {
        "throughput": picture(partial(drawing, throughput.plot(drawn.throughput(plan)))),
        "prices": picture(partial(rows_drawing, prices.chart(drawn.prices(plan, alternatives)))),
        "memory": picture(
            partial(rows_drawing, memory_bar.chart(parts, plan.maximum.memory, plan.deployment.gpu.name))
        ),
        "way": picture(partial(rows_drawing, way_to_serve.chart(plan.time_to_serve))),
    }
    return render(
        _FOLDER,
        {
            "answer": _answer,
            "batch": _batch,
            "left": _left,
            "format_duration": format_duration,
            "format_lengths": format_lengths,
            "format_limits": format_limits,
            "format_number": format_number,
            "format_usd": format_usd,
            "tables": plan_tables,
            "model_tables": model_tables,
        },
        title=f"Plan for {format_goal(plan.question)}",
        plan=plan,
        pictures=pictures,
        numbers=tuple(_numbers(plan)),
        parts=parts,
        alternatives=alternatives,
        week=days,
        week_remarks=day_remarks,
        errors=errors(),
        basis=_BASIS[plan.basis],
        other_requests=plan.question.workload.name != "article",
    )


def _answer(plan: Plan) -> str:
    """The plan in one sentence."""
    nodes = format_nodes(plan.machines, plan.question.machine, plan.gpus)
    behind = ROUTINGS[plan.deployment.routing]
    priced = plan.money.usd_per_node_hour is not None
    bought = f": {plan.money.bill.format_hourly_total()}" if priced else "; the price of a node-hour is unknown"
    return f"{nodes}, {CAPACITIES[plan.question.capacity]}, behind {behind}{bought}"


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
    price = drawn.price_of(plan)
    if price is None:
        yield Number(name="a million tokens", now="unknown", more="no price of a node-hour")
    else:
        yield Number(
            name=f"a million tokens{least}",
            now=format_usd(price.total_usd),
            more=f"{format_usd(price.output_usd)} over output tokens alone",
        )
    yield Number(
        name="requests/s",
        now=format_number(now.requests_per_s.value),
        more=f"{format_span(now.requests_per_s)}; at full load {format_number(most.requests_per_s.value)}",
    )
    yield Number(
        name="total tokens/s",
        now=format_number(now.total_tokens_per_s.value),
        more=f"{format_span(now.total_tokens_per_s)}; at full load {format_number(most.total_tokens_per_s.value)}",
    )
    yield Number(
        name="output tokens/s",
        now=format_number(now.output_tokens_per_s.value),
        more=f"{format_span(now.output_tokens_per_s)}; at full load {format_number(most.output_tokens_per_s.value)}",
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
    if plan.kilowatts is not None and most.peak_watts_per_gpu is not None:
        low, high = most.peak_watts_per_gpu
        yield Number(
            name="power",
            now=f"{plan.kilowatts:,.0f} kW",
            more=f"GPUs alone, on average; measured peaks {low:g} to {high:g} W each",
        )
    ways = plural(len(plan.reasons), "difference") + " from the measured range" if plan.reasons else ""
    yield Number(name="confidence", now=plan.label, more=ways)


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


def _left(items: Sequence[LineItem], per: Literal["hour", "month"]) -> str:
    """Sum of a bill's items: known prices added, unknown ones listed."""
    amounts = [item.usd_per_hour if per == "hour" else item.usd_per_month for item in items]
    known = [amount for amount in amounts if amount is not None]
    unknown = [item.name for item, amount in zip(items, amounts, strict=True) if amount is None]
    parts = [f"{format_usd(sum(known))} {'an' if per == 'hour' else 'a'} {per}"] if known else []
    if unknown:
        parts.append(f"items without a dated price ({', '.join(unknown)})")
    return " and ".join(parts) or "nothing"
