"""How long requests took: cumulative curves of four quantities, their percentiles marked, the article's beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from facts.figures import Figure
from facts.texts import plural
from fleet.bench.measurement import Distribution, Latencies
from fleet.report.charts import Axis, Dot, Line, Panel, Plot
from fleet.report.svg import LegendEntry, Point, round_above
from fleet.report.words import format_milliseconds

QUANTITIES: Final = {
    "ttft": "First token (TTFT)",
    "tpot": "Time per token after it (TPOT)",
    "itl": "Between two chunks (ITL)",
    "e2e": "Whole request (E2E)",
}
LOG_FROM: Final = 20.0
"""Spread between the tenth and the hundredth percentile from which a logarithmic axis shows more."""
MOST_POINTS: Final = 160
_TOP: Final = 1.12
"""Above 100 %, so that the last percentile's words have room."""
_EXACT: Final = (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
_MARKED: Final = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
_PUBLISHED: Final = (("median", 0.5), ("p99", 0.99))


def distributions(latencies: Latencies, theirs: Figure | None) -> Plot:
    """One panel a quantity, with the percentiles of a published row in it."""
    found = {name: one for name in QUANTITIES if (one := getattr(latencies, name)) is not None}
    legend = [LegendEntry(words="share that was as fast or faster", style="total", mark="line")]
    legend.append(LegendEntry(words="p50, p90 and p99", style="plan", mark="dot"))
    if theirs is not None:
        words = f"published, second run, {plural(theirs.shape.replicas, 'node')}: median and p99"
        legend.append(LegendEntry(words=words, style="second-run", mark="square"))
    return Plot(
        id="latency",
        title="Latency distributions",
        description="; ".join(f"{QUANTITIES[name]}: {format_percentiles(one)}" for name, one in found.items()) + ".",
        panels=tuple(
            _panel(QUANTITIES[name], one, {} if theirs is None else theirs.details.get(f"{name}_ms", {}))
            for name, one in found.items()
        ),
        legend=tuple(legend),
    )


def format_percentiles(one: Distribution) -> str:
    """The percentiles that the page always names."""
    return f"p50 {format_milliseconds(one.p50)}, p90 {format_milliseconds(one.p90)}, p99 {format_milliseconds(one.p99)}"


def _panel(title: str, one: Distribution, published: dict[str, Any]) -> Panel:
    edges = one.histogram.edges
    high = max(one.max, edges[-1])
    positive = min((value for value in (one.min, one.p10, one.p50, *edges) if value > 0), default=1.0)
    is_log = one.p99 / max(one.p10, positive) >= LOG_FROM or high / max(one.p50, positive) >= LOG_FROM
    low = max(positive, one.p10 / 10) if is_log else 0.0
    high = max(high, *published.values()) if published else high
    unit, factor = ("seconds", 1_000.0) if one.p50 >= 1_000 else ("milliseconds", 1.0)
    top = (high * 1.15 if is_log else round_above(high, 4)) if high > low else low + 1
    return Panel(
        title=title,
        x=Axis(low=low / factor, high=top / factor, is_log=is_log, title=f"{unit}{', logarithmic' if is_log else ''}"),
        y=Axis(low=0, high=_TOP, ticks=((0, "0 %"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (1, "100 %"))),
        lines=(Line(style="total", points=tuple((max(x, low) / factor, y) for x, y in cumulative(one))),),
        dots=(*_theirs(published, factor), *_ours(one, low, factor)),
        height=250,
    )


def _ours(one: Distribution, low: float, factor: float) -> Iterator[Dot]:
    for name, share in _MARKED:
        value = getattr(one, name)
        words = f"{name} {format_milliseconds(value)}"
        yield Dot(
            x=max(value, low) / factor,
            y=share,
            mark="dot",
            style="plan",
            title=words,
            words=words,
            words_above=share > 0.95,
        )


def _theirs(published: dict[str, Any], factor: float) -> Iterator[Dot]:
    for name, share in _PUBLISHED:
        if name in published:
            title = f"published, second run: {name} {format_milliseconds(published[name])}"
            yield Dot(x=published[name] / factor, y=share, mark="square", style="second-run", title=title)


def cumulative(one: Distribution) -> tuple[Point, ...]:
    """The share of values up to each edge, at most MOST_POINTS of them, and to the exact percentiles.

    Bins may be wide against the values where most of them lie; percentiles keep the curve right there.
    """
    total = sum(one.histogram.counts) or 1
    shares = (0.0, *(count / total for count in accumulate(one.histogram.counts)))
    points = tuple(zip(one.histogram.edges, shares, strict=True))
    every = -(-len(points) // MOST_POINTS)
    exact = tuple((getattr(one, name), share) for name, share in _EXACT)
    values, reached = zip(*sorted({*points[:-1:every], points[-1], *exact}), strict=True)
    return tuple(zip(values, accumulate(reached, max), strict=True))
