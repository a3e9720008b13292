"""Second by second: tokens, requests in flight, the servers' cache and queue, power."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fleet.bench.measurement import Gpus, Run, ServerMetrics
from fleet.bench.report.shown import Shown, middles, name_of, since_start
from fleet.report.charts import Axis, Level, Line, Panel, Plot, Stretch, axis_from_zero, thinned
from fleet.report.svg import LegendEntry, Point
from fleet.report.words import format_number, format_percent, format_short

MOST_POINTS: Final = 300
"""Of a line: about one a pixel on a phone, every third pixel on a screen."""
MOST_SMALL_POINTS: Final = 90
MOST_RUNS: Final = 24
"""Small plots of runs; with more, only the repeats of the load that the page shows."""
STEADY = LegendEntry(words="steady window", style="steady", mark="band")
TOTAL = LegendEntry(words="total tokens a second", style="total", mark="line")
OUTPUT = LegendEntry(words="output tokens a second", style="output", mark="line")


def throughput(run: Run) -> Plot:
    """Total and output tokens a second over the run, with the parts that do not count named."""
    line = run.timeline
    x = _seconds(_length(run))
    stretches = tuple(_stretches(run))
    levels = (
        ()
        if run.steady is None
        else (
            Level(value=run.steady.total_tokens_per_s, style="level"),
            Level(value=run.steady.output_tokens_per_s, style="level"),
        )
    )
    steady = (
        f"Steady window from second {stretches[1].low:.0f} to {stretches[1].high:.0f}: "
        f"{format_number(run.steady.total_tokens_per_s)} total tokens a second, "
        f"{format_number(run.steady.output_tokens_per_s)} of them output."
        if run.steady is not None
        else "There is no steady window."
    )
    return Plot(
        id="throughput-time",
        title="Throughput over time",
        description=steady,
        panels=(
            Panel(
                title="Tokens a second",
                x=x,
                y=axis_from_zero(line.total_tokens_per_s),
                stretches=stretches,
                levels=levels,
                lines=(
                    Line(style="total", points=_points(middles(line), line.total_tokens_per_s)),
                    Line(style="output", points=_points(middles(line), line.output_tokens_per_s)),
                ),
                height=290,
            ),
        ),
        legend=(
            TOTAL,
            OUTPUT,
            *(
                (*shaded(run), LegendEntry(words="mean of the steady window", style="level", mark="line"))
                if levels
                else ()
            ),
        ),
        columns=1,
    )


def in_flight(run: Run) -> Plot:
    """Requests in flight over the run against what was intended."""
    line = run.timeline
    return Plot(
        id="in-flight",
        title="Requests in flight over time",
        description=(
            f"Intended: {run.connections:,}."
            if run.in_flight_mean_steady is None
            else f"Intended: {run.connections:,}; mean of the steady window: {format_number(run.in_flight_mean_steady)}."
        ),
        panels=(
            Panel(
                title="Requests in flight, all clients together",
                x=_seconds(_length(run)),
                y=axis_from_zero((*line.in_flight, run.connections * 1.05)),
                stretches=tuple(_stretches(run)),
                levels=(Level(value=run.connections, style="limit", words=f"intended: {run.connections:,}"),),
                lines=(Line(style="total", points=_points(middles(line), line.in_flight)),),
                height=220,
            ),
        ),
        legend=(
            LegendEntry(words="requests in flight", style="total", mark="line"),
            LegendEntry(words="intended", style="limit", mark="line"),
            *shaded(run),
        ),
        columns=1,
    )


def runs_drawn(shown: Shown) -> tuple[Run, ...]:
    """The runs that get a small plot each: all, or those of the shown load."""
    found = shown.measurement.runs if len(shown.measurement.runs) <= MOST_RUNS else shown.runs
    return tuple(sorted(found, key=lambda run: (run.connections, run.point, run.repeat)))


def runs(shown: Shown) -> Plot:
    """Every run as a small plot of its total tokens a second; rates share one axis within a load."""
    drawn = runs_drawn(shown)
    highest = {
        point: max(max(run.timeline.total_tokens_per_s, default=0.0) for run in drawn if run.point == point)
        for point in {run.point for run in drawn}
    }
    return Plot(
        id="runs",
        title="Every run",
        description="; ".join(
            f"{name_of(shown.measurement, run)}: "
            + (
                "no steady window"
                if run.steady is None
                else f"{format_number(run.steady.total_tokens_per_s)} total tokens a second"
            )
            for run in drawn
        )
        + ".",
        panels=tuple(
            Panel(
                title=name_of(shown.measurement, run),
                x=Axis(low=0, high=max(_length(run), 1.0), words=_with_unit),
                y=axis_from_zero((highest[run.point],)),
                stretches=tuple(
                    Stretch(low=stretch.low, high=stretch.high, style=stretch.style, words="")
                    for stretch in _stretches(run)
                    if stretch.style == "steady"
                ),
                lines=(
                    Line(
                        style="total",
                        points=_points(middles(run.timeline), run.timeline.total_tokens_per_s, most=MOST_SMALL_POINTS),
                    ),
                ),
                height=140,
            )
            for run in drawn
        ),
        legend=(TOTAL, *(shaded(next((run for run in drawn if run.steady is not None), drawn[0])))),
        columns=3,
    )


def cache_and_queue(run: Run, server: ServerMetrics) -> Plot:
    """KV cache in use, and sequences running and waiting, over all engines."""
    line = server.timeline
    x = _seconds(max(_length(run), *line.at, 0.0) if line.at else _length(run))
    stretches = tuple(stretch for stretch in _stretches(run) if stretch.style == "steady")
    peak = max(line.kv_max, default=0.0)
    return Plot(
        id="cache-queue",
        title="KV cache and queue over time",
        description=(
            f"The fullest engine's KV cache peaked at {format_percent(peak, 0)}; at most {format_number(max(line.running, default=0))} "
            f"sequences ran and {format_number(max(line.waiting, default=0))} waited, all engines together."
        ),
        panels=(
            Panel(
                title="KV cache in use",
                x=x,
                y=Axis(low=0, high=1, ticks=((0, "0 %"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1, "100 %"))),
                stretches=stretches,
                lines=(
                    Line(style="output", points=_points(line.at, line.kv_max)),
                    Line(style="total", points=_points(line.at, line.kv_mean)),
                ),
            ),
            Panel(
                title="Sequences, all engines together",
                x=x,
                y=axis_from_zero((*line.running, *line.waiting)),
                stretches=stretches,
                lines=(
                    Line(style="total", points=_points(line.at, line.running)),
                    Line(style="waiting", points=_points(line.at, line.waiting)),
                ),
            ),
        ),
        legend=(
            LegendEntry(words="mean of the engines; running", style="total", mark="line"),
            LegendEntry(words="fullest engine", style="output", mark="line"),
            LegendEntry(words="waiting", style="waiting", mark="line"),
            *shaded(run),
        ),
    )


def power(run: Run, gpus: Gpus) -> Plot | None:
    """Watts of one GPU on average; None where power was not read."""
    count = max((reading.gpus for reading in gpus.readings if reading.name == "power_watts"), default=0)
    if gpus.timeline is None or not gpus.timeline.at or not count:
        return None
    each = [watts / count for watts in gpus.timeline.watts]
    return Plot(
        id="power",
        title="Power over time",
        description=f"Mean of {count:,} GPUs: at most {max(each):,.0f} W each, {max(gpus.timeline.watts) / 1_000:,.1f} kW together.",
        panels=(
            Panel(
                title=f"Watts a GPU, mean of {count:,}",
                x=_seconds(max(_length(run), *gpus.timeline.at)),
                y=axis_from_zero(each),
                stretches=tuple(stretch for stretch in _stretches(run) if stretch.style == "steady"),
                lines=(Line(style="total", points=_points(gpus.timeline.at, each)),),
                height=220,
            ),
        ),
        legend=(LegendEntry(words="watts a GPU", style="total", mark="line"), *shaded(run)),
        columns=1,
    )


def shaded(run: Run) -> tuple[LegendEntry, ...]:
    """The shade's entry in a legend, where anything is shaded."""
    return () if run.steady is None else (STEADY,)


def _seconds(length: float) -> Axis:
    return Axis(low=0, high=max(length, 1.0), title="seconds since the first request")


def _with_unit(seconds: float) -> str:
    """A tick of a small plot, which has no room for the axis' title. The 0 stands beside that of the other axis."""
    return f"{format_short(seconds)} s" if seconds else "0"


def _length(run: Run) -> float:
    return max(run.whole.seconds, run.timeline.at[-1] + 1 if run.timeline.at else 0.0)


def _points(at: Sequence[float], values: Sequence[float], *, most: int = MOST_POINTS) -> tuple[Point, ...]:
    """Moments before the first request are not drawn."""
    return thinned([(moment, value) for moment, value in zip(at, values, strict=True) if moment >= 0], most)


def _stretches(run: Run) -> Iterator[Stretch]:
    """Warm-up, steady window and tail; nothing where there is no steady window."""
    if run.steady is None:
        return
    begin, end = since_start(run, run.steady)
    begin, end = max(begin, 0.0), min(end, _length(run))
    yield Stretch(low=0, high=begin, style="cut", words="warm-up")
    yield Stretch(low=begin, high=end, style="steady", words="steady window")
    yield Stretch(low=end, high=_length(run), style="cut", words="tail")
