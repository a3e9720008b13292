"""The simulated week as an outline, and as sections of a plan's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Final

from facts.cost import HOURS_PER_MONTH
from facts.day import SECONDS_PER_DAY
from facts.texts import plural
from fleet.plan.day.comparison import (
    BLIND_SECONDS,
    MOST_OF_A_STACK,
    STOCK_OUT_SECONDS,
    Comparison,
    Judged,
    Subject,
    keeps_own,
    meeting,
    recommended,
)
from fleet.plan.day.simulate import DayResult
from fleet.plan.report.document import camel_case
from fleet.report.charts import Axis, Line, Panel, Plot, axis_from_zero, drawing
from fleet.report.outline import Element, Figure, Items, Next, Outline, Prose, Section, some
from fleet.report.svg import LegendEntry
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import LADDERS_RESERVATION, format_number, format_percent
from settings.derived.scaling import ScalingPolicy
from settings.sections.scaling import Scaling

SHAPES: Final = {"bursty": "Bursty load", "daily": "Daily load"}
_COLUMNS: Final = (
    "on time",
    "failures",
    "node-h/day",
    "USD/day",
    "USD/month",
    "lost",
    "starts",
    "wasted",
    "worst hour",
)
"""Left to right; a narrow terminal drops the last ones."""
_LEAVES_OUT: Final = (
    "Not simulated: bursts shorter than ten minutes, differences between nodes and between requests, responses cut off when "
    "a server ends, capacity of individual nodes, retries. Latency is the planner's expected value, not its high end."
)


def outline(subject: Subject, comparisons: Sequence[Comparison], *, stack: str | None = None) -> Outline:
    """The simulated week alone; of a stack's fleet, or of a plan's."""
    fleet, section = subject.fleet, recommended(subject, comparisons)
    reading = (
        "on time: share of requests that found a server below full load, where the latency limits hold. failures: the same on "
        f"the busiest day, with no new node for {STOCK_OUT_SECONDS // 3600} h and no metrics for "
        f"{BLIND_SECONDS // 3600} h, both from an hour before its peak"
        + (", and one node reclaimed." if subject.interruptible else "."),
        *(("Amounts are lower bounds: some prices are unknown.",) if subject.at_least else ()),
        _LEAVES_OUT,
    )
    return Outline(
        title=f"A simulated week with a peak of {format_number(subject.peak_requests_per_s)} requests/s",
        kind=subject.label,
        head=(
            Prose(
                f"{plural(subject.most, 'server')} at most, {format_number(fleet.serving.full_requests_per_s)} requests/s each "
                f"at full load (modeled); a new server takes about {fleet.start_seconds / 60:.0f} min to its first response."
            ),
        ),
        body=(
            *sections(subject, comparisons),
            Section(title="How to read this", body=tuple(map(Prose, reading))),
            *some(None if section is None else Next(f"server.scaling: {format_section(section)}")),
        ),
        data={"stack": stack, "day": camel_case(day_document(subject, comparisons))},
    )


def sections(subject: Subject, comparisons: Sequence[Comparison]) -> Iterator[Section]:
    """The week's policies under each shape of load."""
    told: tuple[Element, ...] = tuple(map(Prose, remarks(subject)))
    chosen = tuple(map(Prose, objective(subject, comparisons)))
    for comparison in comparisons:
        policies = [
            f"{way.name}: {format_policy(way.policy)}"
            for way in comparison.ways
            if isinstance(way.policy, ScalingPolicy)
        ]
        yield Section(
            title=SHAPES[comparison.shape],
            body=(
                *told,
                Figure(
                    drawn=partial(drawing, chart(comparison)),
                    caption="A simulated week, shaped by a public trace; the goal is the peak of two weeks. docs/scaling-day.md "
                    "lists what is not simulated.",
                ),
                table(comparison),
                Items((*policies, format_mistakes(comparison.mistakes))),
                *(chosen if comparison is comparisons[-1] else ()),
            ),
            id=f"week-{comparison.shape}",
        )
        told = ()


def format_policy(policy: ScalingPolicy) -> str:
    """`2 to 10, 776 in flight each; 08:00 to 14:00 at least 5`."""
    parts = [f"{policy.min} to {policy.max}"]
    if policy.target_in_flight is not None:
        parts.append(f"{policy.target_in_flight:,} in flight each")
    windows = [
        f"{_clock(window.start_minute)} to {_clock(window.end_minute)} at least {window.replicas}"
        for window in policy.windows
    ]
    if windows:
        windows[-1] += f" (requested {policy.early_minutes} min earlier)"
    return "; ".join((", ".join(parts), *windows))


def format_section(section: Scaling) -> str:
    """The section as one line of a stack file."""
    values = section.model_dump(by_alias=True, exclude_unset=True)
    return f"{{{', '.join(f'{key}: {value}' for key, value in values.items())}}}"


def remarks(subject: Subject) -> Iterator[str]:
    """Warnings that apply to this fleet."""
    fleet = subject.fleet
    if subject.is_short:
        held = format_number(subject.most * fleet.serving.full_requests_per_s)
        larger = (
            f": {subject.bounded_by}: {subject.needed}"
            if subject.bounded_by and subject.needed <= MOST_OF_A_STACK
            else ""
        )
        yield (
            f"The peak exceeds the capacity of {plural(subject.most, 'server')}, {held} requests/s at full load. It needs "
            f"{subject.needed:,} with the headroom{larger}. No scaling policy helps until then."
        )
    if subject.slow_product is not None:
        yield (
            f"The servers' release is slow here ({subject.slow_product.effect}): the week counts on the middle. `fleet check` names "
            "a release without this defect."
        )
    if fleet.paid_nodes is not None:
        yield (
            f"The nodes for {plural(fleet.paid_nodes, 'server')} are paid for whether they run or not, so scaling saves nothing and "
            "none is recommended."
        )
    if subject.reservation_first:
        yield LADDERS_RESERVATION
    if fleet.reserved_nodes:
        saves = "saves nothing, and none is recommended" if subject.is_paid_anyway else "saves what lies beyond it"
        yield f"Every amount includes the reservation for {plural(fleet.reserved_nodes, 'server')}, used or not: scaling {saves}."


def objective(subject: Subject, comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Whether a load-driven policy meets the objective."""
    if subject.is_short or subject.is_paid_anyway:
        return
    policy, share = (
        meeting(subject, comparisons),
        format_percent(subject.objective, 2).removesuffix(" %").rstrip("0").rstrip("."),
    )
    if policy is None:
        yield (
            f"No policy that scales by load has {share} % on time under both shapes, the objective (monitoring.alerts.objective). "
            "The static fleet has: none is recommended."
        )
    elif keeps_own(subject, comparisons):
        yield (
            f"The stack's own scaling has at least {share} % on time under both shapes (monitoring.alerts.objective): keep it. No "
            "cheaper policy that does was found."
        )
    else:
        yield f"Recommended, with at least {share} % on time under both shapes (monitoring.alerts.objective): {format_policy(policy)}."


def format_mistakes(mistakes: Sequence[Judged]) -> str:
    """Outcome of two common mistakes."""
    waiting, to_zero = (mistake.week for mistake in mistakes)
    return (
        f"mistakes: scaling on waiting requests: {_share(waiting)} on time, {plural(waiting.starts, 'start')}, "
        f"{waiting.wasted_starts} wasted; minReplicaCount 0 with the default ignoreNullValues and an hour without metrics: "
        f"{_share(to_zero)} on time"
    )


def day_document(subject: Subject, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The simulated week as JSON; `camel_case` turns the keys into camelCase."""
    fleet, section = subject.fleet, recommended(subject, comparisons)
    return {
        "peak_requests_per_s": subject.peak_requests_per_s,
        "full_requests_per_s_per_server": fleet.serving.full_requests_per_s,
        "start_seconds": fleet.start_seconds,
        "usd_per_node_hour": fleet.usd_per_node_hour,
        "at_least": subject.at_least,
        "label": subject.label,
        "servers_needed": subject.needed,
        "objective": subject.objective,
        "remarks": [*remarks(subject), *objective(subject, comparisons)],
        "recommended": None if section is None else section.model_dump(by_alias=True, exclude_unset=True),
        "shapes": [
            {
                "shape": comparison.shape,
                "ways": [_judged(way) for way in comparison.ways],
                "mistakes": [_judged(way) for way in comparison.mistakes],
            }
            for comparison in comparisons
        ],
    }


def table(one: Comparison) -> Table:
    """The scaling policies."""
    return Table(
        id=f"day-{one.shape}",
        caption=SHAPES[one.shape],
        columns=(*texts("policy"), *numbers(*_COLUMNS[:3]), *numbers(*_COLUMNS[3:], is_optional=True)),
        rows=tuple(tuple(map(Cell, _row(way))) for way in one.ways),
    )


def chart(one: Comparison) -> Plot:
    """The week's load, and the capacity under two policies."""
    comes, styles = "total first-run", {"load": "model", "both": "planned-line"}
    timelines = {way.name: way.week.timeline for way in one.ways}
    drawn = {comes: [(at.second / SECONDS_PER_DAY, at.requests_per_s) for at in timelines["static"]]}
    for name, style in styles.items():
        drawn[style] = [(at.second / SECONDS_PER_DAY, at.capacity_requests_per_s) for at in timelines[name]]
    panel = Panel(
        title="Requests/s: load and capacity",
        x=Axis(low=0, high=7, title="days", ticks=tuple((day, str(day)) for day in range(8))),
        y=axis_from_zero([rate for points in drawn.values() for _, rate in points]),
        lines=tuple(Line(style=style, points=tuple(points)) for style, points in drawn.items()),
    )
    legend = {"load": comes, **styles}
    return Plot(
        id=f"day-picture-{one.shape}",
        title=SHAPES[one.shape],
        description=f"{SHAPES[one.shape]}: load and capacity in requests/s over a week.",
        panels=(panel,),
        legend=tuple(LegendEntry(words=words, mark="line", style=style) for words, style in legend.items()),
        columns=1,
    )


def _row(way: Judged) -> Iterator[str]:
    week, day = way.week, way.usd_per_day
    yield way.name
    yield _share(week)
    yield "" if way.bad_day is None else _share(way.bad_day)
    yield f"{week.node_hours / week.hours * 24:,.0f}"
    yield "?" if day is None else f"{day:,.0f}"
    yield "?" if day is None else f"{day / 24 * HOURS_PER_MONTH:,.0f}"
    yield format_percent(week.requests_lost / week.requests, 2)
    yield f"{week.starts:,}"
    yield f"{week.wasted_starts:,}"
    yield format_percent(week.worst_hour_attainment, 0)


def _judged(way: Judged) -> dict[str, Any]:
    day = way.usd_per_day
    return {
        "name": way.name,
        "policy": {"replicas": way.policy} if isinstance(way.policy, int) else asdict(way.policy),
        "usd_per_day": day,
        "usd_per_month": None if day is None else day / 24 * HOURS_PER_MONTH,
        "week": _result(way.week),
        "bad_day": None if way.bad_day is None else _result(way.bad_day),
    }


def _result(result: DayResult) -> dict[str, Any]:
    fields = asdict(replace(result, timeline=()))
    del fields["timeline"]
    return {"slo_attainment": result.slo_attainment, **fields}


def _share(result: DayResult) -> str:
    return format_percent(result.slo_attainment, 2)


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
