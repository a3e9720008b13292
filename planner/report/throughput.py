"""The picture of throughput against nodes: the model's line and band, the article's points, the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from planner.estimates import Estimate
from planner.report.svg import (
    CAPITAL_PX,
    LINE_PX,
    WIDTH,
    Drawing,
    Format,
    LegendEntry,
    Mark,
    Scale,
    draw_legend,
    legend_rows,
    lines_of,
    round_above,
    round_ticks,
    text_width,
)
from planner.report.wording import number, plural, short

_PANEL_HEIGHT = 280.0
_PANEL_GAP = 34.0
_AXIS_LEFT = 48.0
_ABOVE = 46.0
_BELOW = 42.0
_MOST_TICKS = {"wide": 8, "narrow": 5}
# A node's own rate hardly moves: an axis from 0 would hide how it falls, and how wide the band is.
_PER_NODE_MARGIN = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One published point."""

    nodes: int
    total_tokens_per_s: float
    series: str
    """Key of SERIES."""
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One run of the article."""

    title: str
    mark: Mark
    style: str


SERIES = {
    "cluster_ip": Series(title="published, first run", mark="ring", style="first-run"),
    "cluster_ip_rerun": Series(title="published, second run", mark="square", style="second-run"),
    "gateway": Series(title="published, behind the gateway", mark="diamond", style="gateway-run"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """What is drawn."""

    curve: tuple[tuple[int, Estimate], ...]
    """Total tokens a second at full load, by nodes, ascending."""
    readings: tuple[Reading, ...]
    nodes: int
    """The plan's."""
    at_full_load: Estimate
    planned: float
    """Total tokens a second that the plan is to carry."""

    @property
    def most_nodes(self) -> int:
        """The last one of the curve."""
        return self.curve[-1][0]

    @property
    def is_below_full_load(self) -> bool:
        """Whether the planned load is another point than full load."""
        return self.planned < 0.995 * self.at_full_load.value


def drawing(found: Throughput, format_: Format) -> Drawing:
    """Two panels: the whole fleet, and one node of it; side by side, or one above the other on a phone."""
    width = WIDTH[format_]
    rows = legend_rows(tuple(_legend(found)), width)
    side_by_side = format_ == "wide"
    panels_height = _PANEL_HEIGHT if side_by_side else 2 * _PANEL_HEIGHT + _PANEL_GAP
    result = Drawing(
        "throughput",
        format_,
        panels_height + len(rows) * (LINE_PX + 2) + 12,
        title="Throughput against nodes",
        description=_in_words(found),
    )
    across = (width - _PANEL_GAP) / 2 if side_by_side else width
    _fleet(result, found, _Box(0, 0, across))
    if side_by_side:
        _per_node(result, found, _Box(across + _PANEL_GAP, 0, across))
    else:
        _per_node(result, found, _Box(0, _PANEL_HEIGHT + _PANEL_GAP, across))
    draw_legend(result, rows, 0, panels_height + 20)
    return result


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a panel stands."""

    left: float
    top: float
    width: float

    @property
    def bottom(self) -> float:
        """The axis."""
        return self.top + _PANEL_HEIGHT - _BELOW

    def across(self, nodes: float) -> Scale:
        """Nodes from 0."""
        return Scale(0, nodes, self.left + _AXIS_LEFT, self.left + self.width - 10)

    def up(self, low: float, high: float) -> Scale:
        """Tokens a second."""
        return Scale(low, high, self.bottom, self.top + _ABOVE)


def _fleet(drawing: Drawing, found: Throughput, box: _Box) -> None:
    rates = [estimate.high for _, estimate in found.curve] + [one.total_tokens_per_s for one in found.readings]
    high = round_above(max(*rates, found.planned), 5)
    x, y = box.across(_axis_nodes(found)), box.up(0, high)
    _axes(drawing, box, "Whole fleet: total tokens a second", x, y)
    load = y(found.planned)
    drawing.line(x.start, load, x.end, load, "planned-line")
    _panel(drawing, found, x, y, lambda _, rate: rate)
    label = f"planned load {short_rate(found.planned)}"
    # The curve rises from the lower left, so what stands at the left above the load's line is free of it, unless it is low.
    above = load - 6 if load - 6 - CAPITAL_PX > box.top + _ABOVE - LINE_PX else load + LINE_PX
    if _free(found, x, y, x.start + 6, x.start + 8 + text_width(label), above - CAPITAL_PX - 2, above + 3):
        drawing.text(x.start + 6, above, label, "planned-text")


def _free(found: Throughput, x: Scale, y: Scale, left: float, right: float, top: float, bottom: float) -> bool:
    """Whether no published point stands in that rectangle and the curve does not pass it."""
    points = [(x(one.nodes), y(one.total_tokens_per_s)) for one in found.readings]
    points += [(x(found.nodes), y(found.at_full_load.value)), (x(found.nodes), y(found.planned))]
    curve = [(x(nodes), y(estimate.value)) for nodes, estimate in found.curve]
    for (x1, y1), (x2, y2) in pairwise(curve):
        points += [(x1 + (x2 - x1) * part / 8, y1 + (y2 - y1) * part / 8) for part in range(9)]
    return not any(left - 8 < px < right + 8 and top - 8 < py < bottom + 8 for px, py in points)


def _per_node(drawing: Drawing, found: Throughput, box: _Box) -> None:
    rates = [end / nodes for nodes, estimate in found.curve for end in (estimate.low, estimate.high)]
    rates += [one.total_tokens_per_s / one.nodes for one in found.readings]
    rates.append(found.planned / found.nodes)
    low, high = min(rates) * (1 - _PER_NODE_MARGIN), max(rates) * (1 + _PER_NODE_MARGIN)
    ticks = round_ticks(low, high, 6)
    step = ticks[1] - ticks[0]
    low, high = max(0.0, ticks[0] - step), ticks[-1] + step
    x, y = box.across(_axis_nodes(found)), box.up(low, high)
    begins = "" if low == 0 else f" (axis from {short(low)})"
    _axes(drawing, box, f"One node of it: total tokens a second{begins}", x, y)
    _panel(drawing, found, x, y, lambda nodes, rate: rate / nodes)


def _axes(drawing: Drawing, box: _Box, title: str, x: Scale, y: Scale) -> None:
    for number_of_line, words in enumerate(lines_of(title, box.width, bold=True)):
        drawing.text(box.left, box.top + 12 + number_of_line * LINE_PX, words, "panel-title")
    for value in round_ticks(y.low, y.high, 6):
        drawing.line(x.start, y(value), x.end, y(value), "grid" if value > y.low else "axis")
        drawing.text(x.start - 6, y(value) + CAPITAL_PX / 2, short(value), "tick", anchor="end")
    for value in round_ticks(0, x.high, _MOST_TICKS[drawing.format]):
        if value == round(value) and value > 0:
            drawing.line(x(value), y.start, x(value), y.start + 4, "axis")
            drawing.tick(x(value), y.start + 17, f"{value:,.0f}")
    drawing.line(x.start, y.start, x.end, y.start, "axis")
    drawing.tick((x.start + x.end) / 2, y.start + 35, "A4 nodes, 8 B200 each")


def _panel(drawing: Drawing, found: Throughput, x: Scale, y: Scale, of: Callable[[int, float], float]) -> None:
    highs = [(x(nodes), y(of(nodes, estimate.high))) for nodes, estimate in found.curve]
    lows = [(x(nodes), y(of(nodes, estimate.low))) for nodes, estimate in found.curve]
    drawing.area([*highs, *reversed(lows)], "band")
    drawing.curve([(x(nodes), y(of(nodes, estimate.value))) for nodes, estimate in found.curve], "model")
    for one in found.readings:
        series = SERIES[one.series]
        drawing.mark(
            x(one.nodes),
            y(of(one.nodes, one.total_tokens_per_s)),
            series.mark,
            series.style,
            title=f"{plural(one.nodes, 'node')}: {number(one.total_tokens_per_s)} tok/s, {series.title}, {one.label}",
        )
    if found.is_below_full_load:
        drawing.mark(
            x(found.nodes),
            y(of(found.nodes, found.planned)),
            "dot",
            "planned",
            title=_plan(found, "at its planned load", found.planned),
        )
    drawing.mark(
        x(found.nodes),
        y(of(found.nodes, found.at_full_load.value)),
        "star",
        "plan",
        title=_plan(found, "at full load", found.at_full_load.value),
    )


def _plan(found: Throughput, when: str, rate: float) -> str:
    return f"this plan, {plural(found.nodes, 'node')}, {when}: {number(rate)} tok/s"


def _axis_nodes(found: Throughput) -> float:
    return found.most_nodes * 1.04


def _legend(found: Throughput) -> Iterator[LegendEntry]:
    yield LegendEntry(words="this plan at full load", style="plan", mark="star")
    if found.is_below_full_load:
        yield LegendEntry(words="this plan at its load", style="planned", mark="dot")
    yield LegendEntry(words="model at full load", style="model", mark="line")
    yield LegendEntry(words="how far it may be off", style="band", mark="band")
    drawn = {one.series for one in found.readings}
    for key, series in SERIES.items():
        if key in drawn:
            yield LegendEntry(words=series.title, style=series.style, mark=series.mark)


def _in_words(found: Throughput) -> str:
    full = found.at_full_load
    return (
        f"{plural(found.nodes, 'node')}: {number(full.value)} total tokens a second at full load, {number(full.low)} to "
        f"{number(full.high)}; planned: {number(found.planned)}. Published: {_published(found.readings)}."
    )


def _published(readings: Sequence[Reading]) -> str:
    return "; ".join(
        f"{SERIES[one.series].title.removeprefix('published, ')}, {plural(one.nodes, 'node')}, {number(one.total_tokens_per_s)}"
        for one in readings
    )


def short_rate(rate: float) -> str:
    """A rate for a label: 1.2M tok/s."""
    return f"{float(f'{rate:.3g}') / 1e6:g}M tok/s" if rate >= 999_500 else f"{short(float(f'{rate:.3g}'))} tok/s"
