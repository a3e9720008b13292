"""Plots as data, and one way to draw them: panels with axes, lines, bars, marks and shaded stretches, in a grid.

A plot says what it shows; where words have room, how wide an axis must be, and how a phone gets the same panels below each
other is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

from fleet.report.svg import (
    CAPITAL_PX,
    LINE_PX,
    Drawing,
    Format,
    LegendEntry,
    LogScale,
    Mark,
    Point,
    Scale,
    draw_legend,
    legend_rows,
    lines_of,
    round_above,
    round_ticks,
    text_width,
)
from fleet.report.svg import WIDTH as WIDTHS
from fleet.report.words import format_short

ROW_GAP_PX: Final = 30.0
COLUMN_GAP_PX: Final = 30.0
RIGHT_PX: Final = 10.0
"""Free to the right of an axis: half a tick's words, and marks on the last value."""
TICK_PX: Final = 52.0
"""Room that a tick's words get on an axis across."""
UP_TICK_PX: Final = 34.0
"""Room of a line of the axis that goes up."""
LEAST: Final = 1e-9
"""A highest value up to here is drawn as none: nothing on these plots is counted so finely."""
THINNEST_BAR_PX: Final = 0.8
_MARGIN: Final = 0.08
"""Of an axis that does not begin at 0, on both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One direction of a panel."""

    low: float
    high: float
    is_log: bool = False
    title: str = ""
    words: Callable[[float], str] = format_short
    """A tick's value in words."""
    ticks: tuple[tuple[float, str], ...] | None = None
    """Ticks of its own; None: round values."""

    def scale(self, start: float, end: float) -> Scale | LogScale:
        """Onto pixels."""
        kind = LogScale if self.is_log else Scale
        return kind(self.low, self.high, start, end)

    def marks(self, most: int) -> tuple[tuple[float, str], ...]:
        """At most about that many ticks with their words."""
        if self.ticks is not None:
            every = ceil(len(self.ticks) / most)
            return self.ticks[::every]
        values = log_ticks(self.low, self.high, most) if self.is_log else round_ticks(self.low, self.high, most)
        return tuple((value, self.words(value)) for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points joined."""

    style: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One value, with its words beside it where they have room."""

    x: float
    y: float
    mark: Mark
    style: str
    title: str = ""
    words: str = ""
    words_above: bool = False
    """Whether the words stand above it and not beside it."""
    span: tuple[float, float] | None = None
    """Interval, drawn as a whisker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """From the axis to a value; `peak` is a line across at another one."""

    low: float
    high: float
    value: float
    style: str
    title: str
    peak: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A shaded part of the axis across, with its name where it has room."""

    low: float
    high: float
    style: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A line across the whole panel, with its words above it."""

    value: float
    style: str
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes and what is drawn in it."""

    title: str
    x: Axis
    y: Axis
    stretches: tuple[Stretch, ...] = ()
    bars: tuple[Bar, ...] = ()
    levels: tuple[Level, ...] = ()
    lines: tuple[Line, ...] = ()
    dots: tuple[Dot, ...] = ()
    height: float = 230.0
    """Pixels, title and axis included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Panels in a grid, with what their signs stand for."""

    id: str
    title: str
    description: str
    """What it shows in words, for readers who do not see it."""
    panels: tuple[Panel, ...]
    legend: tuple[LegendEntry, ...] = ()
    columns: int = 2
    """On a wide page; a phone has one."""


def drawing(plot: Plot, format_: Format) -> Drawing:
    """The plot in that format."""
    width = WIDTHS[format_]
    columns = max(1, min(plot.columns if format_ == "wide" else 1, len(plot.panels)))
    across = (width - COLUMN_GAP_PX * (columns - 1)) / columns
    rows = [plot.panels[start : start + columns] for start in range(0, len(plot.panels), columns)]
    heights = [max(panel.height for panel in row) for row in rows]
    panels_height = sum(heights) + ROW_GAP_PX * (len(rows) - 1)
    legend = legend_rows(plot.legend, width) if plot.legend else ()
    result = Drawing(
        plot.id,
        format_,
        panels_height + (len(legend) * (LINE_PX + 2) + 12 if legend else 0),
        title=plot.title,
        description=plot.description,
    )
    top = 0.0
    for row, height in zip(rows, heights, strict=True):
        for number, panel in enumerate(row):
            _panel(result, panel, number * (across + COLUMN_GAP_PX), top, across)
        top += height + ROW_GAP_PX
    if legend:
        draw_legend(result, legend, 0, panels_height + 20)
    return result


def log_ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    """Round values of a logarithmic axis: 1, 2 and 5 of every power of ten, or fewer of them."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    found: tuple[float, ...] = ()
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = tuple(
            value
            for power in powers
            for factor in factors
            if low * 0.999 <= (value := factor * 10.0**power) <= high * 1.001
        )
        if len(found) <= most:
            return found
    return found[:: ceil(len(found) / most)]


def axis_from_zero(values: Sequence[float], *, words: Callable[[float], str] = format_short) -> Axis:
    """From 0 to a round value that holds them all; to 1 where there is nothing above 0, or so little that it is nothing."""
    high = max(values, default=0.0)
    return Axis(low=0.0, high=round_above(high, 4) if high > LEAST else 1.0, words=words)


def axis_around(values: Sequence[float]) -> Axis:
    """Around values that hardly differ, which an axis from 0 would hide."""
    low, high = min(values) * (1 - _MARGIN), max(values) * (1 + _MARGIN)
    ticks = round_ticks(low, high, 6)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return Axis(low=max(0.0, ticks[0] - step), high=ticks[-1] + step)


def axis_of_counts(most: int, title: str) -> Axis:
    """From 0 to a little beyond a count, with whole numbers as ticks."""
    high = most * 1.05
    ticks = tuple((value, f"{value:,.0f}") for value in round_ticks(0, high, 8) if value == round(value))
    return Axis(low=0, high=high, title=title, ticks=ticks)


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """At most that many points: neighbours become their mean, so that a rate's area stays what it is."""
    if len(points) <= most:
        return tuple(points)
    each = len(points) / most
    edges = [round(number * each) for number in range(most + 1)]
    return tuple(
        (sum(x for x, _ in points[a:b]) / (b - a), sum(y for _, y in points[a:b]) / (b - a)) for a, b in pairwise(edges)
    )


def _panel(drawing: Drawing, panel: Panel, left: float, top: float, width: float) -> None:
    begins = f" (axis from {panel.y.words(panel.y.low)})" if panel.y.low and not panel.y.is_log else ""
    titles = lines_of(panel.title + begins, width, bold=True)
    for number, words in enumerate(titles):
        drawing.text(left, top + 12 + number * LINE_PX, words, "panel-title")
    ceiling = top + 16 + LINE_PX * len(titles)
    floor_ = top + panel.height - (40 if panel.x.title else 22)
    up_ticks = panel.y.marks(max(2, int((floor_ - ceiling) / UP_TICK_PX)))
    margin = max((text_width(words) for _, words in up_ticks), default=0.0) + 10
    start, end = left + margin, left + width - RIGHT_PX
    x, y = panel.x.scale(start, end), panel.y.scale(floor_, ceiling)
    for stretch in panel.stretches:
        _stretch(drawing, stretch, x, ceiling, floor_)
    for value, words in up_ticks:
        drawing.line(start, y(value), end, y(value), "grid")
        drawing.text(start - 6, y(value) + CAPITAL_PX / 2, words, "tick", anchor="end")
    for value, words in panel.x.marks(max(2, int((end - start) / TICK_PX))):
        drawing.line(x(value), floor_, x(value), floor_ + 4, "axis")
        drawing.tick(x(value), floor_ + 16, words)
    if panel.x.title:
        for words in lines_of(panel.x.title, end - start)[:1]:
            drawing.tick((start + end) / 2, floor_ + 33, words)
    for bar in panel.bars:
        _bar(drawing, bar, x, y, floor_)
    for level in panel.levels:
        drawing.line(start, y(level.value), end, y(level.value), level.style)
        if level.words and text_width(level.words) <= end - start:
            drawing.text(end, y(level.value) - 4, level.words, "tick halo", anchor="end")
    for line in panel.lines:
        drawing.curve([(x(px), y(py)) for px, py in line.points], line.style)
    drawing.line(start, floor_, end, floor_, "axis")
    for dot in panel.dots:
        _dot(drawing, dot, x, y, start, end)


def _stretch(drawing: Drawing, stretch: Stretch, x: Scale | LogScale, ceiling: float, floor_: float) -> None:
    left, right = x(stretch.low), x(stretch.high)
    drawing.rectangle(left, ceiling, right - left, floor_ - ceiling, stretch.style, title=stretch.words)
    if text_width(stretch.words) <= right - left - 4:
        drawing.text((left + right) / 2, ceiling - 4, stretch.words, "tick", anchor="middle")


def _bar(drawing: Drawing, bar: Bar, x: Scale | LogScale, y: Scale | LogScale, floor_: float) -> None:
    left, wide = x(bar.low), max(x(bar.high) - x(bar.low), THINNEST_BAR_PX)
    high = y(bar.value)
    drawing.rectangle(left, high, wide, max(floor_ - high, 0.0), bar.style, title=bar.title)
    if bar.peak is not None:
        drawing.line(left, y(bar.peak), left + wide, y(bar.peak), "peak")


def _dot(drawing: Drawing, dot: Dot, x: Scale | LogScale, y: Scale | LogScale, start: float, end: float) -> None:
    px, py = x(dot.x), y(dot.y)
    if dot.span is not None:
        low, high = (y(value) for value in dot.span)
        drawing.line(px, low, px, high, "whisker")
        for edge in (low, high):
            drawing.line(px - 4, edge, px + 4, edge, "whisker")
    drawing.mark(px, py, dot.mark, dot.style, title=dot.title)
    if dot.words:
        wide = text_width(dot.words) + 9
        base = py - 8 if dot.words_above else py + CAPITAL_PX / 2
        if px + wide <= end + RIGHT_PX:
            drawing.text(px + 9, base, dot.words, "halo")
        elif px - wide >= start:
            drawing.text(px - 9, base, dot.words, "halo", anchor="end")
