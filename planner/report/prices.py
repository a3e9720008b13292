"""The picture of what a million tokens cost: this fleet by how its capacity is bought, beside what APIs ask.

A dot on a logarithmic axis, not a bar: prices lie a hundredfold apart, and the length of a bar would say nothing there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, log10
from typing import Literal

from planner.report.svg import (
    CAPITAL_PX,
    LINE_PX,
    WIDTH,
    Drawing,
    Format,
    LegendEntry,
    LogScale,
    Mark,
    draw_legend,
    legend_rows,
    lines_of,
    text_width,
)
from planner.report.wording import usd

_LABELS_WIDE = 300.0
_ROW_WIDE = 30.0
_WORDS_GAP = 14.0
_TOP = 8.0
_BELOW = 46.0
_SPREAD = 1.25
"""Room on both sides of the axis, as a factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """One way to buy tokens."""

    name: str
    kind: Literal["fleet", "api"]
    usd_per_million: float | None
    """None: the price is unknown."""
    low: float | None = None
    high: float | None = None
    at_least: bool = False
    """Whether the fleet's bill has items without a price."""
    chosen: bool = False
    """Whether it is the plan's own."""
    unknown_because: str = ""

    @property
    def in_words(self) -> str:
        """The price, or that there is none."""
        if self.usd_per_million is None:
            return "price unknown"
        least = "at least " if self.at_least else ""
        return f"{least}{usd(self.usd_per_million)}"


def drawing(rows: tuple[PriceRow, ...], format_: Format) -> Drawing:
    """A row for each way, in the order given. On a phone its name and its price stand above it."""
    width, wide = WIDTH[format_], format_ == "wide"
    words_px = max(text_width(row.in_words, bold=row.chosen) for row in rows) + _WORDS_GAP
    label_px = _LABELS_WIDE - 16 if wide else width - words_px
    labels = [lines_of(row.name, label_px, bold=row.chosen) for row in rows]
    heights = [max(_ROW_WIDE, len(lines) * LINE_PX + 8) if wide else len(lines) * LINE_PX + 26 for lines in labels]
    legend = legend_rows(tuple(_legend(rows)), width)
    bottom = _TOP + sum(heights)
    result = Drawing(
        "prices",
        format_,
        bottom + _BELOW + len(legend) * (LINE_PX + 2) + 6,
        title="Dollars for a million tokens",
        description="; ".join(f"{row.name}: {row.in_words}" for row in rows) + ".",
    )
    x = _scale(rows, _LABELS_WIDE if wide else 12.0, width - 12 - (words_px if wide else 0))
    if x is not None:
        _axis(result, x, bottom)
    top = _TOP
    for row, lines, height in zip(rows, labels, heights, strict=True):
        middle = top + height / 2 if wide else top + len(lines) * LINE_PX + 11
        base = middle + CAPITAL_PX / 2 - (len(lines) - 1) * LINE_PX / 2 if wide else top + 13
        for number, words in enumerate(lines):
            result.text(0, base + number * LINE_PX, words, "chosen halo" if row.chosen else "halo")
        end = _row(result, row, x, middle)
        style = "unknown halo" if row.usd_per_million is None else "chosen halo" if row.chosen else "halo"
        if wide:
            result.text(end + 8, middle + CAPITAL_PX / 2, row.in_words, style)
        else:
            result.text(width, base, row.in_words, style, anchor="end")
        top += height
    draw_legend(result, legend, 0, bottom + _BELOW + 14)
    return result


def _scale(rows: tuple[PriceRow, ...], start: float, end: float) -> LogScale | None:
    """One that holds every price; None where none is known."""
    known = [value for row in rows for value in (row.usd_per_million, row.low, row.high) if value]
    return LogScale(min(known) / _SPREAD, max(known) * _SPREAD, start, end) if known else None


def _axis(drawing: Drawing, x: LogScale, bottom: float) -> None:
    for value in _decimal_ticks(x.low, x.high):
        drawing.line(x(value), _TOP, x(value), bottom, "axis" if _is_power_of_ten(value) else "grid")
    taken: list[tuple[float, float]] = []
    # Powers of ten first: where there is no room for every label, theirs are the ones to keep.
    for value in sorted(_decimal_ticks(x.low, x.high), key=lambda tick: (not _is_power_of_ten(tick), tick)):
        words = usd(value) if value < 1 else f"${value:,.0f}"
        half = text_width(words) / 2
        at = min(max(x(value), half), drawing.width - half)
        if all(at + half + 8 < left or right + 8 < at - half for left, right in taken):
            drawing.tick(at, bottom + 17, words)
            taken.append((at - half, at + half))
    middle = (x.start + x.end) / 2
    drawing.tick(middle, bottom + 36, "dollars for a million tokens (logarithmic axis)")


def _is_power_of_ten(value: float) -> bool:
    return abs(log10(value) - round(log10(value))) < 1e-9


def _decimal_ticks(low: float, high: float) -> Iterator[float]:
    for power in range(floor(log10(low)), floor(log10(high)) + 1):
        for factor in (1, 2, 5):
            value = factor * 10.0**power
            if low <= value <= high:
                yield value


def _row(drawing: Drawing, row: PriceRow, x: LogScale | None, y: float) -> float:
    """The mark, and the line to the price at full load. Returns where it ends."""
    if row.usd_per_million is None or x is None:
        return _LABELS_WIDE
    at = x(row.usd_per_million)
    end = at + 6
    if row.low is not None and row.high is not None:
        drawing.line(x(row.low), y, x(row.high), y, "whisker")
        end = max(end, x(row.high))
    style = "api" if row.kind == "api" else "plan" if row.chosen else "fleet"
    shape: Mark = "diamond" if row.kind == "api" else "star" if row.chosen else "dot"
    drawing.mark(at, y, shape, style, title=f"{row.name}: {row.in_words}")
    return end


def _legend(rows: tuple[PriceRow, ...]) -> Iterator[LegendEntry]:
    if any(row.chosen and row.usd_per_million is not None for row in rows):
        yield LegendEntry(words="this plan", style="plan", mark="star")
    if any(row.kind == "fleet" and not row.chosen and row.usd_per_million is not None for row in rows):
        yield LegendEntry(words="the same fleet, bought otherwise", style="fleet", mark="dot")
    if any(row.low is not None for row in rows):
        yield LegendEntry(words="from full load to the planned load", style="whisker", mark="line")
    if any(row.kind == "api" for row in rows):
        yield LegendEntry(words="API, published list price", style="api", mark="diamond")
