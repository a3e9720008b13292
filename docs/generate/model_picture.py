"""The pictures beside the model: throughput of a node, and the error of every predicted row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from facts import figures
from facts.texts import plural
from facts.workloads import named_workload
from fleet.plan.model import baseline
from fleet.plan.model.deployment import Routing, measured_load, record_fleet
from fleet.plan.model.errors import Error, errors
from fleet.plan.model.performance import estimate
from fleet.plan.report.throughput import SERIES
from fleet.report.charts import Axis, Band, Dot, Line, Panel, Plot, axis_of_counts, drawing
from fleet.report.rows import Bar, Row, Rows, rows_drawing
from fleet.report.rows import Dot as RowDot
from fleet.report.svg import LegendEntry
from fleet.report.svg_file import svg_document

_MOST_NODES = 13
_MOST_PERCENT = 13.0
_RATES: tuple[tuple[str, Routing, range], ...] = (
    ("Behind a plain Service", "cluster-ip", range(1, 14)),
    ("Behind the Inference Gateway", "inference-gateway", range(2, 10)),
)
_METRICS = {
    "total_tokens_per_s": "tok/s",
    "requests_per_s": "requests/s",
    "tpot_ms": "TPOT",
    "running_peak_per_engine": "running",
    "kv_cache_peak_percent": "KV cache",
}
_RUNS = {"cluster_ip": "run 1", "cluster_ip_rerun": "run 2", "gateway": "gateway", "users": "users"}


def pictures() -> Mapping[str, str]:
    """SVG documents by file name."""
    return {
        "planner-model.svg": svg_document(drawing(_throughput(), "wide"), "Total tokens a second of one node"),
        "planner-errors.svg": svg_document(
            rows_drawing(_errors(), "wide"), "Error on the rows that were not fitted to"
        ),
    }


def _throughput() -> Plot:
    return Plot(
        id="model",
        title="Throughput of a node",
        description="The model with its interval, the straight line and the published rows.",
        panels=tuple(_panel(title, routing, nodes) for title, routing, nodes in _RATES),
        legend=(
            LegendEntry(words="model, with its interval", style="model", mark="line"),
            LegendEntry(words="straight line", style="planned-line", mark="line"),
            *(LegendEntry(words=one.title, style=one.style, mark=one.mark) for one in SERIES.values()),
        ),
    )


def _panel(title: str, routing: Routing, nodes: range) -> Panel:
    workload = named_workload("article")
    fleets = [(count, record_fleet(count, routing=routing)) for count in nodes]
    answers = [(n, estimate(fleet, workload, measured_load(n)).total_tokens_per_s) for n, fleet in fleets]
    files = ("gateway",) if routing == "inference-gateway" else ("cluster_ip", "cluster_ip_rerun")
    return Panel(
        title=title,
        x=axis_of_counts(_MOST_NODES, "A4 nodes"),
        y=Axis(low=40_000, high=110_000),
        bands=(
            Band(
                style="band",
                lows=tuple((count, answer.low / count) for count, answer in answers),
                highs=tuple((count, answer.high / count) for count, answer in answers),
            ),
        ),
        lines=(
            Line(style="planned-line", points=tuple((n, baseline.total_tokens_per_s(one) / n) for n, one in fleets)),
            Line(style="model", points=tuple((count, answer.value / count) for count, answer in answers)),
        ),
        dots=tuple(dot for file in files for dot in _published(file)),
        height=280,
    )


def _published(file: str) -> Iterator[Dot]:
    for figure in figures.all_figures():
        if figure.id.startswith(f"{file}.nodes-") and figure.total_tokens_per_s:
            nodes = figure.shape.replicas
            yield Dot(x=nodes, y=figure.total_tokens_per_s / nodes, mark=SERIES[file].mark, style=SERIES[file].style)


def _errors() -> Rows:
    found = [error for error in errors("predicted") if error.row.metric != "ttft_ms"]
    return Rows(
        id="errors",
        title="Error on every predicted row",
        description="; ".join(f"{_name(error)} {error.percent:+.1f} %" for error in found) + ".",
        axis=Axis(
            low=-_MOST_PERCENT,
            high=_MOST_PERCENT,
            title="per cent",
            words=lambda value: f"{value:+.0f}" if value else "0",
        ),
        rows=tuple(_row(error) for error in found),
        legend=(
            LegendEntry(words="model", style="bar", mark="band"),
            LegendEntry(words="straight line", style="planned", mark="dot"),
        ),
    )


def _row(error: Error) -> Row:
    words = f"{error.percent:+.1f} %"
    low, high = sorted((0.0, error.percent))
    line = error.line_percent
    dots = (
        () if line is None else (RowDot(at=line, mark="dot", style="planned", title=f"straight line: {line:+.1f} %"),)
    )
    bar = Bar(low=low, high=high, style="bar", title=f"model: {words}")
    return Row(label=_name(error), words=words, bars=(bar,), dots=dots)


def _name(error: Error) -> str:
    nodes = error.row.deployment.nodes
    run = _RUNS[error.row.id.partition(".")[0]]
    return f"{run}, {plural(nodes, 'node')}: {_METRICS[error.row.metric]}"
