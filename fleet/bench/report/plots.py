"""The four plots of a measurement, drawn with matplotlib: throughput over time, latency distributions, by load, by nodes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from fleet.bench.measurement import Distribution, Latencies, Measurement, Point, Run
from fleet.bench.report.article import SERIES, Published, series_of

if TYPE_CHECKING:
    from fleet.report.outline import Format

QUANTITIES: Final = {
    "ttft": "first token (TTFT)",
    "tpot": "time per token after it (TPOT)",
    "itl": "between two chunks (ITL)",
    "e2e": "whole request (E2E)",
}
_MARKS: Final = dict(zip(SERIES, ("o", "s", "D"), strict=True))
_WIDTHS: Final = {"wide": 9.0, "narrow": 4.2}
"""Inches, at 72 dots."""
_HEIGHT: Final = 3.2
_LOG_FROM: Final = 20.0
"""Spread between the median and the longest from which a logarithmic axis shows more."""


Plot = Callable[["Format"], str]
"""The `<svg>` element of a plot."""


def _drawn(name: str, panels: Sequence[Callable[[Any], None]]) -> Plot:
    """Panels side by side, on a phone below each other."""

    def draw(format_: Format) -> str:
        wide = format_ == "wide"
        rows, columns = (1, len(panels)) if wide and len(panels) < 4 else (len(panels), 1)
        if wide and len(panels) == 4:
            rows, columns = 2, 2
        # Text stays text, and no date or random id makes two drawings of one measurement differ.
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"{name}-{format_}", "font.size": 9}):
            figure = Figure(figsize=(_WIDTHS[format_], _HEIGHT * rows), layout="constrained")
            for axes, panel in zip(figure.subplots(rows, columns, squeeze=False).flat, panels, strict=True):
                axes.grid(visible=True, alpha=0.3)
                panel(axes)
            file = io.StringIO()
            figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
        return f'<svg class="{format_}" {file.getvalue().partition("<svg ")[2]}'

    return draw


def over_time(run: Run) -> Plot:
    """Total and output tokens a second over a run; what does not count is shaded."""

    def panel(axes: Any) -> None:
        line = run.timeline
        middles = [at + 0.5 for at in line.at]
        axes.plot(middles, line.total_tokens_per_s, label="total tok/s")
        axes.plot(middles, line.output_tokens_per_s, label="output tok/s")
        if run.steady is not None:
            began, ended = run.steady.began - run.whole.began, run.steady.ended - run.whole.began
            axes.axvspan(0, began, alpha=0.15, color="gray")
            axes.axvspan(ended, run.whole.seconds, alpha=0.15, color="gray")
        axes.set(xlabel="seconds since the first request", xlim=(0, run.whole.seconds), ylim=(0, None))
        axes.legend(loc="lower center", ncols=2)

    return _drawn("time", [panel])


def distributions(latencies: Latencies, published: Published) -> Plot:
    """The share of requests (of ITL: of chunks) that were as fast or faster, and the article's median and p99."""
    theirs = {} if published.latency is None else published.latency.details

    def panel(title: str, one: Distribution, marks: dict[str, float]) -> Callable[[Any], None]:
        def draw(axes: Any) -> None:
            axes.plot(one.curve, range(101))
            for name, percent in (("p50", 50), ("p99", 99)):
                axes.plot([getattr(one, name)], [percent], "o", color="C0")
            for name, percent in (("median", 50), ("p99", 99)):
                if name in marks:
                    axes.plot([marks[name]], [percent], _MARKS["cluster_ip_rerun"], color="C2", fillstyle="none")
            if one.max / max(one.p50, 1e-9) > _LOG_FROM:
                axes.set_xscale("log")
            axes.set(title=title, xlabel="ms", ylabel="percent", ylim=(0, 101))

        return draw

    return _drawn(
        "latency",
        [
            panel(title, one, theirs.get(f"{name}_ms", {}))
            for name, title in QUANTITIES.items()
            if (one := getattr(latencies, name)) is not None
        ],
    )


def by_load(points: Sequence[Point]) -> Plot:
    """Rates and median latencies against requests in flight."""
    ordered = sorted(points, key=lambda point: point.connections)
    loads = [point.connections for point in ordered]

    def rates(axes: Any) -> None:
        for key, label in (("total_tokens_per_s", "total tok/s"), ("output_tokens_per_s", "output tok/s")):
            found = [getattr(point, key) for point in ordered]
            error = [0.0 if one.low is None else one.mean - one.low for one in found]
            axes.errorbar(loads, [one.mean for one in found], error, fmt="o-", capsize=3, label=label)
        axes.set(xlabel="requests in flight", ylim=(0, None), xlim=(0, None))
        axes.legend()

    def latencies(axes: Any) -> None:
        for name, label in QUANTITIES.items():
            found = [(point.connections, getattr(point.latencies, name)) for point in ordered]
            axes.plot(
                *zip(*[(load, one.p50) for load, one in found if one is not None], strict=True), "o-", label=label
            )
        axes.set(xlabel="requests in flight", ylabel="median, ms", yscale="log", xlim=(0, None))
        axes.legend()

    return _drawn("load", [rates, latencies])


def by_nodes(measured: Sequence[Measurement], published: Published) -> Plot:
    """Total tokens a second of the fleet and of a node against nodes, beside what was published."""

    def panel(title: str, *, per_node: bool) -> Callable[[Any], None]:
        def draw(axes: Any) -> None:
            for key, label in SERIES.items():
                rows = [row for row in published.rows if series_of(row) == key]
                if rows:
                    xs = [row.shape.replicas for row in rows]
                    ys = [(row.total_tokens_per_s or 0) / (row.shape.replicas if per_node else 1) for row in rows]
                    axes.plot(xs, ys, _MARKS[key], fillstyle="none", label=label)
            for (key, label, style), found in _ours(measured):
                ys = [value / (nodes if per_node else 1) for nodes, value in found]
                axes.plot([nodes for nodes, _ in found], ys, style, label=label, color=key)
            axes.set(title=title, xlabel="nodes", xlim=(0, None), ylim=(0, None))
            if not per_node:
                axes.legend()

        return draw

    return _drawn("nodes", [panel("fleet: total tok/s", per_node=False), panel("a node: total tok/s", per_node=True)])


def _ours(measured: Sequence[Measurement]) -> Iterator[tuple[tuple[str, str, str], list[tuple[int, float]]]]:
    best = [max(one.points, key=lambda point: point.total_tokens_per_s.mean) for one in measured]
    nodes = [one.asked.shape.replicas for one in measured]
    steady = [point.total_tokens_per_s.mean for point in best]
    summed = [article_way(one, point) for one, point in zip(measured, best, strict=True)]
    yield ("C3", "measured, steady window", "*"), list(zip(nodes, steady, strict=True))
    yield ("C1", "measured, the article's way", "."), list(zip(nodes, summed, strict=True))


def article_way(measurement: Measurement, point: Point) -> float:
    """Total tokens a second as the article counts: sum of the clients' own rates, mean over the repeats."""
    rates = [run.summed.total_tokens_per_s for run in measurement.runs if run.point == point.point]
    return sum(rates) / len(rates)
