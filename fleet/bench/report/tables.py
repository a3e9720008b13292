"""Tables of the measurement: the figures behind every plot, and every run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from facts.texts import plural
from fleet.bench.measurement import Distribution, Estimate, Rates, Run, SummedRates
from fleet.bench.report.article import SERIES, Published, series_of
from fleet.bench.report.plots_latency import QUANTITIES
from fleet.bench.report.shown import Shown, errors_by_kind, has_steady, summed_total
from fleet.bench.report.words import interval, rate
from fleet.report.table import Cell, Column, Table, numbers, texts
from fleet.report.words import (
    NOTHING,
    format_elapsed,
    format_milliseconds,
    format_number,
    format_percent,
    format_usd,
)


def windows(run: Run) -> Table:
    """One run, counted in four ways."""
    return Table(
        id="windows-table",
        caption="The shown run, counted in four ways",
        columns=(*texts("counted over"), *numbers("seconds", "total tok/s", "output tok/s", "requests/s")),
        rows=tuple(_windows(run)),
        chosen=0 if run.steady is not None else None,
    )


def _windows(run: Run) -> Iterator[tuple[Cell, ...]]:
    yield _window("steady window", run.steady, run.steady_why)
    common = "while every client was active"
    yield _window(
        "common window",
        run.common,
        common if run.common else "none: the clients were never all active together",
    )
    yield _window("whole run", run.whole, "from the first request to the last answer")
    summed: SummedRates = run.summed
    yield (
        Cell("the article's way", note="sum of each client's rate over its own time"),
        Cell(NOTHING),
        *(
            Cell(format_number(one))
            for one in (summed.total_tokens_per_s, summed.output_tokens_per_s, summed.requests_per_s)
        ),
    )


def _window(name: str, found: Rates | None, note: str) -> tuple[Cell, ...]:
    if found is None:
        return (Cell(name, note=note), *(Cell(NOTHING),) * 4)
    values = (found.total_tokens_per_s, found.output_tokens_per_s, found.requests_per_s)
    return (Cell(name, note=note), Cell(f"{found.seconds:.1f}"), *(Cell(format_number(value)) for value in values))


def runs(shown: Shown) -> Table:
    """Every run of the measurement."""
    ordered = sorted(shown.measurement.runs, key=lambda run: (run.connections, run.point, run.repeat))
    return Table(
        id="runs-table",
        caption="Every run",
        columns=numbers(
            "in flight",
            "repeat",
            "steady total tok/s",
            "steady output tok/s",
            "window s",
            "article's way tok/s",
            "answered",
            "failed",
            "start skew s",
        ),
        rows=tuple(
            (
                Cell(f"{run.connections:,}"),
                Cell(str(run.repeat + 1)),
                Cell(rate(None if run.steady is None else run.steady.total_tokens_per_s)),
                Cell(rate(None if run.steady is None else run.steady.output_tokens_per_s)),
                Cell(NOTHING if run.steady is None else f"{run.steady.seconds:.1f}"),
                Cell(format_number(run.summed.total_tokens_per_s)),
                Cell(f"{run.completed:,}"),
                Cell(f"{run.failed:,}"),
                Cell(f"{run.start_skew_s:.2f}"),
            )
            for run in ordered
        ),
        chosen=ordered.index(shown.run) if len(ordered) > 1 else None,
    )


def points(shown: Shown) -> Table:
    """Every load of a sweep."""
    ordered = sorted(shown.measurement.points, key=lambda point: point.connections)
    return Table(
        id="points-table",
        caption="Every load of the sweep",
        columns=(
            *numbers("in flight", "total tok/s", "output tok/s"),
            *numbers("requests/s"),
            *numbers("TTFT p50"),
            *numbers("TTFT p99"),
            *numbers("TPOT p50"),
            *numbers("TPOT p99"),
            *numbers("USD a million tokens"),
        ),
        rows=tuple(
            (
                Cell(f"{point.connections:,}"),
                *(
                    _estimate(one, known=has_steady(shown.measurement, point))
                    for one in (point.total_tokens_per_s, point.output_tokens_per_s, point.requests_per_s)
                ),
                *(
                    Cell(NOTHING if one is None else format_milliseconds(getattr(one, name)))
                    for one in (point.latencies.ttft, point.latencies.tpot)
                    for name in ("p50", "p99")
                ),
                Cell(NOTHING if point.usd_per_million_tokens is None else format_usd(point.usd_per_million_tokens)),
            )
            for point in ordered
        ),
        chosen=ordered.index(shown.point),
    )


def _estimate(one: Estimate, *, known: bool) -> Cell:
    if not known:
        return Cell(NOTHING, note="no steady window")
    note = "" if one.low is None or one.high is None else f"{format_number(one.low)} to {format_number(one.high)}"
    return Cell(format_number(one.mean), note=note)


def nodes(shown: Shown, published: Published, count: int) -> Table:
    """The measurement and the published rows, by nodes."""
    summed = summed_total(shown)
    rows: list[tuple[int, bool, tuple[Cell, ...]]] = []
    for figure in published.rows:
        total = figure.total_tokens_per_s or 0
        note = f"{figure.label}{'; rounded in the article' if figure.approximate else ''}"
        rows.append(
            (
                figure.shape.replicas,
                False,
                _node_row(
                    figure.shape.replicas,
                    SERIES[series_of(figure)].title.removeprefix("published, "),
                    note,
                    total,
                    figure.output_tokens_per_s,
                ),
            )
        )
    if shown.is_steady:
        point = shown.point
        note = interval(point.total_tokens_per_s)
        rows.append(
            (
                count,
                True,
                _node_row(
                    count,
                    "this measurement, steady window",
                    note,
                    point.total_tokens_per_s.mean,
                    point.output_tokens_per_s.mean,
                ),
            )
        )
    output = sum(run.summed.output_tokens_per_s for run in shown.runs) / len(shown.runs)
    rows.append((count, False, _node_row(count, "this measurement, the article's way", "", summed, output)))
    rows.sort(key=lambda row: row[0])
    return Table(
        id="nodes-table",
        caption="Throughput by nodes",
        columns=(*numbers("nodes"), *texts("which"), *numbers("total tok/s", "a node", "output tok/s")),
        rows=tuple(cells for _, _, cells in rows),
        chosen=next((index for index, row in enumerate(rows) if row[1]), None),
    )


def _node_row(count: int, which: str, note: str, total: float, output: float | None) -> tuple[Cell, ...]:
    return (
        Cell(f"{count:,}"),
        Cell(which, note=note),
        Cell(format_number(total)),
        Cell(format_number(total / count)),
        Cell(rate(output)),
    )


def latency(shown: Shown, published: Published) -> Table:
    """Percentiles over every answered request of the shown load, with the article's."""
    return Table(
        id="latency-table",
        caption="Latency percentiles",
        columns=(
            *texts("quantity"),
            *numbers("mean"),
            *numbers("p50", "p90"),
            *numbers("p95"),
            *numbers("p99", "p99.9"),
            *numbers("longest", "values"),
        ),
        rows=tuple(_latency_rows(shown, published)),
    )


def _latency_rows(shown: Shown, published: Published) -> Iterator[tuple[Cell, ...]]:
    for name, title in QUANTITIES.items():
        one: Distribution | None = getattr(shown.point.latencies, name)
        if one is None:
            yield (Cell(title, note="not measured"), *(Cell(NOTHING),) * 8)
            continue
        values = (one.mean, one.p50, one.p90, one.p95, one.p99, one.p999, one.max)
        yield (Cell(title), *(Cell(format_milliseconds(value)) for value in values), Cell(f"{one.count:,}"))
        figure = published.latency
        theirs = {} if figure is None else figure.details.get(f"{name}_ms", {})
        if figure is not None and theirs:
            note = f"second run, {plural(figure.shape.replicas, 'node')}, {figure.label}"
            known = [theirs.get(key) for key in ("mean", "median", "", "", "p99", "", "")]
            cells = (Cell("" if value is None else format_milliseconds(value)) for value in known)
            yield (Cell("article", note=note), *cells, Cell(""))


def goodput(shown: Shown) -> Table:
    """Requests within the limits, for each run of the shown load."""
    found = [(run, run.goodput) for run in shown.runs if run.goodput is not None]
    return Table(
        id="goodput-table",
        caption="Requests within the limits",
        columns=numbers("repeat", "within the limits", "share of all requests", "requests/s", "output tok/s"),
        rows=tuple(
            (
                Cell(str(run.repeat + 1)),
                Cell(f"{one.requests:,}"),
                Cell(format_percent(one.share)),
                Cell(format_number(one.requests_per_s)),
                Cell(format_number(one.output_tokens_per_s)),
            )
            for run, one in found
        ),
    )


def errors(found: Sequence[Run]) -> Table:
    """Failed requests by kind, over all runs."""
    return Table(
        id="errors-table",
        caption="Failed requests by kind",
        columns=(*texts("kind"), *numbers("requests"), Column(title="for example")),
        rows=tuple(
            (Cell(one.kind), Cell(f"{one.count:,}"), Cell(one.example or NOTHING)) for one in errors_by_kind(found)
        ),
    )


def format_clocks(run: Run) -> str:
    """How clients' times were aligned."""
    ways = {
        "witness": "by the wall clock, which each client recorded",
        "one node": "by the monotonic clock of the one node of all clients",
        "end date": "by the end date in each file, to a second",
    }
    off = run.clock_uncertainty_s
    if off < 1e-5:
        return f"{ways[run.clock]}; uncertain by less than {format_milliseconds(0.01)}"
    return f"{ways[run.clock]}; uncertain by {format_elapsed(off) if off >= 0.1 else format_milliseconds(off * 1_000)}"
