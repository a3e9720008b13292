"""Throughput against nodes, beside what was published, and against the requests in flight."""

from __future__ import annotations

from collections.abc import Iterator

from facts.texts import plural
from fleet.bench.measurement import Point
from fleet.bench.report.article import SERIES, Published, series_of
from fleet.bench.report.shown import Shown, has_steady, summed_total
from fleet.bench.report.words import interval
from fleet.report.charts import Axis, Dot, Line, Panel, Plot, axis_around, axis_from_zero, axis_of_counts
from fleet.report.svg import LegendEntry, Mark
from fleet.report.words import format_milliseconds, format_number

OURS = LegendEntry(words="this measurement, steady window, 95 % interval", style="plan", mark="star")
_LATENCIES: tuple[tuple[str, str, Mark, str, str], ...] = (
    ("e2e", "whole request (E2E)", "diamond", "model", "gateway-run"),
    ("ttft", "first token (TTFT)", "square", "total", "second-run"),
    ("tpot", "time per token (TPOT)", "ring", "output", "first-run"),
)
OURS_SUMMED = LegendEntry(words="this measurement, the article's way", style="planned", mark="dot")


def against_nodes(shown: Shown, published: Published, nodes: int) -> Plot:
    """Two panels: the fleet, and one node of it, beside at least one published row."""
    point = shown.point
    drawn = {series_of(figure) for figure in published.rows}
    legend = (
        *((OURS,) if shown.is_steady else ()),
        OURS_SUMMED,
        *(
            LegendEntry(words=SERIES[key].title, style=SERIES[key].style, mark=SERIES[key].mark)
            for key in SERIES
            if key in drawn
        ),
    )
    most = max(nodes, *(figure.shape.replicas for figure in published.rows))
    fleet = tuple(_dots(shown, published, nodes, per_node=False))
    single = tuple(_dots(shown, published, nodes, per_node=True))
    x = axis_of_counts(most, "nodes")
    mean = format_number(point.total_tokens_per_s.mean)
    ours = f"{plural(nodes, 'node')}: {mean} total tokens a second, {interval(point.total_tokens_per_s)}."
    theirs = "; ".join(
        f"{SERIES[series_of(figure)].title}, {plural(figure.shape.replicas, 'node')}, {format_number(figure.total_tokens_per_s or 0)}"
        for figure in published.rows
    )
    return Plot(
        id="throughput-nodes",
        title="Throughput against nodes",
        description=f"{ours} Article: {theirs}.",
        panels=(
            Panel(
                title="Whole fleet: total tokens a second", x=x, y=axis_from_zero(_ends(fleet)), dots=fleet, height=280
            ),
            Panel(
                title="One node: total tokens a second",
                x=x,
                y=axis_around(_ends(single)),
                dots=single,
                height=280,
            ),
        ),
        legend=legend,
    )


def _ends(dots: tuple[Dot, ...]) -> list[float]:
    return [value for dot in dots for value in (dot.y, *(dot.span or ()))]


def _dots(shown: Shown, published: Published, nodes: int, *, per_node: bool) -> Iterator[Dot]:
    for figure in published.rows:
        series, count = SERIES[series_of(figure)], figure.shape.replicas
        total = figure.total_tokens_per_s or 0
        yield Dot(
            x=count,
            y=total / count if per_node else total,
            mark=series.mark,
            style=series.style,
            title=f"{plural(count, 'node')}: {format_number(total)} tok/s, {series.title}, {figure.label}",
        )
    share = 1 / nodes if per_node else 1.0
    summed = summed_total(shown)
    yield Dot(
        x=nodes,
        y=summed * share,
        mark="dot",
        style="planned",
        title=f"this measurement, the article's way: {format_number(summed)} tok/s",
    )
    if shown.is_steady:
        total_ = shown.point.total_tokens_per_s
        yield Dot(
            x=nodes,
            y=total_.mean * share,
            mark="star",
            style="plan",
            span=None
            if total_.low is None or total_.high is None
            else (max(total_.low, 0) * share, total_.high * share),
            title=f"this measurement: {format_number(total_.mean)} tok/s, {interval(total_)}",
        )


def against_load(shown: Shown) -> Plot:
    """Two panels over the requests in flight: rates, and the median latencies on one logarithmic axis."""
    points = sorted(
        (point for point in shown.measurement.points if has_steady(shown.measurement, point)),
        key=lambda point: point.connections,
    )
    most = max(point.connections for point in points)
    x = axis_of_counts(most, "requests in flight, all clients together")
    total = tuple(_of_load(points, "total"))
    output = tuple(_of_load(points, "output"))
    lines, dots, legend = [], [], []
    for name, words, mark, line, style in _LATENCIES:
        found = [(point.connections, getattr(point.latencies, name)) for point in points]
        medians = [(float(load), one.p50 / 1_000) for load, one in found if one is not None and one.p50 > 0]
        if not medians:
            continue
        lines.append(Line(style=f"faint {line}", points=tuple(medians)))
        for load, value in medians:
            dots.append(
                Dot(
                    x=load,
                    y=value,
                    mark=mark,
                    style=style,
                    title=f"{words} at {load:,.0f}: {format_milliseconds(1_000 * value)}",
                )
            )
        legend.append(LegendEntry(words=words, style=style, mark=mark))
    values_s = [dot.y for dot in dots]
    return Plot(
        id="throughput-load",
        title="Throughput and latency against requests in flight",
        description="; ".join(
            f"{point.connections:,} in flight: {format_number(point.total_tokens_per_s.mean)} total tokens a second"
            for point in points
        )
        + ".",
        panels=(
            Panel(
                title="Tokens a second, steady window",
                x=x,
                y=axis_from_zero(_ends((*total, *output))),
                lines=(
                    Line(style="total", points=tuple((dot.x, dot.y) for dot in total)),
                    Line(style="output", points=tuple((dot.x, dot.y) for dot in output)),
                ),
                dots=(*total, *output),
                height=280,
            ),
            Panel(
                title="Median latency, seconds (logarithmic)",
                x=x,
                y=Axis(
                    low=min(values_s) * 0.7, high=max(values_s) * 1.4, is_log=True, words=lambda value: f"{value:g}"
                ),
                lines=tuple(lines),
                dots=tuple(dots),
                height=280,
            ),
        ),
        legend=(
            LegendEntry(words="total tok/s, 95 % interval", style="plan", mark="star"),
            LegendEntry(words="output tok/s", style="planned", mark="dot"),
            *legend,
        ),
    )


def _of_load(points: list[Point], which: str) -> Iterator[Dot]:
    for point in points:
        estimate = point.total_tokens_per_s if which == "total" else point.output_tokens_per_s
        yield Dot(
            x=point.connections,
            y=estimate.mean,
            mark="star" if which == "total" else "dot",
            style="plan" if which == "total" else "planned",
            span=None if estimate.low is None or estimate.high is None else (max(estimate.low, 0), estimate.high),
            title=f"{point.connections:,} in flight: {format_number(estimate.mean)} {which} tok/s, {interval(estimate)}",
        )
