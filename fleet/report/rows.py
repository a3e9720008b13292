"""A chart of rows over one axis: what something costs, how long it takes.

Every row has its label at the left, on a phone above it, and words at the right margin. Words of a bar or a mark are drawn where
they have room, inside or beside it; elsewhere its title, which a pointer shows, has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fleet.report.charts import TICK_PX, Axis
from fleet.report.svg import (
    CAPITAL_PX,
    LINE_PX,
    WIDTH,
    Drawing,
    Format,
    LegendEntry,
    LogScale,
    Mark,
    Scale,
    draw_legend,
    legend_rows,
    lines_of,
    text_width,
)

LABEL_PX: Final = 284.0
_GAP_PX: Final = 14.0
_TOP_PX: Final = 6.0
_ROW_PX: Final = 26.0
_AROUND_PX: Final = 6.0
"""Between a row's edge and its bar."""
_MARK_PX: Final = 6.0
"""Half of a mark's width, and the space between it and its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stretch of the axis."""

    low: float
    high: float
    style: str
    title: str
    words: str = ""
    words_style: str = ""
    """Class of words inside the bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A point of the axis."""

    at: float
    mark: Mark
    style: str
    title: str
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row."""

    label: str
    style: str = ""
    """Class of the label."""
    words: str = ""
    """At the right margin."""
    words_style: str = "tick"
    bars: tuple[Bar, ...] = ()
    dots: tuple[Dot, ...] = ()
    whisker: tuple[float, float] | None = None
    height: float = _ROW_PX
    """Pixels of what is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The chart."""

    id: str
    title: str
    description: str
    """What it shows in words, for readers who do not see it."""
    axis: Axis | None
    """None: there is nothing to draw on it, only words."""
    rows: tuple[Row, ...]
    legend: tuple[LegendEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A row with its place."""

    row: Row
    lines: tuple[str, ...]
    top: float
    """Of the label's lines."""
    middle: float
    bottom: float


def rows_drawing(chart: Rows, format_: Format) -> Drawing:
    """The chart in that format."""
    width, wide = WIDTH[format_], format_ == "wide"
    words_px = max((text_width(row.words, bold=True) for row in chart.rows if row.words), default=-_GAP_PX) + _GAP_PX
    label_px = LABEL_PX if wide else width - words_px
    placed = tuple(_placed(chart.rows, label_px, wide=wide))
    bottom = placed[-1].bottom
    legend = legend_rows(chart.legend, width) if chart.legend else ()
    below = 40.0 if chart.axis else 0.0
    result = Drawing(
        chart.id,
        format_,
        bottom + below + (len(legend) * (LINE_PX + 2) + 8 if legend else 0),
        title=chart.title,
        description=chart.description,
    )
    scale: Scale | LogScale | None = None
    if chart.axis is not None:
        scale = chart.axis.scale(LABEL_PX + 16, width - 12 - words_px) if wide else chart.axis.scale(8, width - 8)
        _axis(result, chart.axis, scale, bottom)
    for one in placed:
        _row(result, one, scale, wide=wide)
    draw_legend(result, legend, 0, bottom + below + 14)
    return result


def _placed(rows: Sequence[Row], label_px: float, *, wide: bool) -> Iterator[_Placed]:
    top = _TOP_PX
    for row in rows:
        lines = lines_of(row.label, label_px, bold="chosen" in row.style)
        if wide:
            height = max(row.height, len(lines) * LINE_PX + 8)
            yield _Placed(row=row, lines=lines, top=top, middle=top + height / 2, bottom=top + height)
        else:
            above = len(lines) * LINE_PX
            height = above + row.height
            yield _Placed(row=row, lines=lines, top=top, middle=top + above + row.height / 2 - 2, bottom=top + height)
        top += height


def _axis(drawing: Drawing, axis: Axis, x: Scale | LogScale, bottom: float) -> None:
    ticks = axis.marks(1)
    for most in range(int((x.end - x.start) / TICK_PX), 1, -1):
        ticks = axis.marks(most)
        if _are_apart(drawing, x, ticks):
            break
    for value, words in ticks:
        drawing.line(x(value), _TOP_PX, x(value), bottom, "grid")
        drawing.tick(x(value), bottom + 16, words)
    drawing.tick((x.start + x.end) / 2, bottom + 33, axis.title)


def _are_apart(drawing: Drawing, x: Scale | LogScale, ticks: Sequence[tuple[float, str]]) -> bool:
    free = 0.0
    for value, words in ticks:
        wide = text_width(words)
        left = min(max(x(value) - wide / 2, 0.0), drawing.width - wide)
        if left < free:
            return False
        free = left + wide + 8
    return True


def _row(drawing: Drawing, placed: _Placed, x: Scale | LogScale | None, *, wide: bool) -> None:
    row, middle = placed.row, placed.middle
    base = middle + CAPITAL_PX / 2 - (len(placed.lines) - 1) * LINE_PX / 2 if wide else placed.top + 13
    for number, words in enumerate(placed.lines):
        drawing.text(0, base + number * LINE_PX, words, f"{row.style} halo".strip())
    if row.words:
        words_base = middle + CAPITAL_PX / 2 if wide else base
        drawing.text(drawing.width, words_base, row.words, f"{row.words_style} halo", anchor="end")
    if x is None:
        return
    top = middle - row.height / 2 + _AROUND_PX
    for bar in row.bars:
        left, right = _ends(bar, x)
        drawing.rectangle(left, top, right - left, row.height - 2 * _AROUND_PX, bar.style, title=bar.title)
    if row.whisker is not None:
        low, high = x(row.whisker[0]), x(row.whisker[1])
        drawing.line(low, middle, high, middle, "whisker")
        for end in (low, high):
            drawing.line(end, middle - 4, end, middle + 4, "whisker")
    for dot in row.dots:
        drawing.mark(x(dot.at), middle, dot.mark, dot.style, title=dot.title)
    for at, words, style in _words(row, x):
        drawing.text(at, middle + CAPITAL_PX / 2 - 0.5, words, style)


def _ends(bar: Bar, x: Scale | LogScale) -> tuple[float, float]:
    """A bar is a pixel wide at least, and stays on the axis."""
    left = min(x(bar.low), x.end - 1)
    return left, max(x(bar.high), left + 1)


def _words(row: Row, x: Scale | LogScale) -> Iterator[tuple[float, str, str]]:
    """Where the words of bars and dots begin that have room, and their class."""
    boxes = [_ends(bar, x) for bar in row.bars]
    boxes += [(x(dot.at) - _MARK_PX, x(dot.at) + _MARK_PX) for dot in row.dots]
    taken = list(boxes)
    items: tuple[Bar | Dot, ...] = (*row.bars, *row.dots)
    for item, (left, right) in zip(items, boxes, strict=True):
        if not item.words:
            continue
        wide = text_width(item.words)
        style = ""
        if not isinstance(item, Bar):
            places = [right + _MARK_PX, left - _MARK_PX - wide]
        elif wide + 2 * _MARK_PX <= right - left:
            places, style = [left + _MARK_PX], item.words_style
        else:
            places = [right + _MARK_PX]
        for at in places:
            others = [box for box in taken if box != (left, right)]
            if x.start <= at and at + wide <= x.end and not _meets(at, at + wide, others):
                taken.append((at - 2, at + wide + 2))
                yield at, item.words, style
                break


def _meets(left: float, right: float, boxes: Iterable[tuple[float, float]]) -> bool:
    return any(left < end and start < right for start, end in boxes)
