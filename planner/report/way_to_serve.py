"""The picture of the way to the first answer: a bar for every step, its spread, and which of them decide."""

from __future__ import annotations

from collections.abc import Iterator

from planner.report.svg import (
    CAPITAL_PX,
    LINE_PX,
    WIDTH,
    Drawing,
    Format,
    LegendEntry,
    Scale,
    draw_legend,
    legend_rows,
    lines_of,
    text_width,
)
from planner.report.wording import duration
from planner.time_to_serve import Step, TimeToServe

_LABELS_WIDE = 300.0
_ROW = 26.0
_BAR = 12.0
_TOP = 6.0
_TICK_MINUTES = (1, 2, 5, 10, 15, 20, 30, 60, 120, 240, 480, 960, 1_920)
_MOST_TICKS = {"wide": 9, "narrow": 6}


def drawing(way: TimeToServe, format_: Format) -> Drawing:
    """Steps from top to bottom as they begin, then the whole way."""
    width = WIDTH[format_]
    wide = format_ == "wide"
    label_width = _LABELS_WIDE - 16 if wide else width
    labels = [lines_of(_label(step), label_width, bold=step.critical) for step in way.steps]
    above = [0.0 if wide else len(lines) * LINE_PX + LINE_PX for lines in labels]
    heights = [
        max(_ROW, len(lines) * LINE_PX + 8) if wide else over + _BAR + 12
        for lines, over in zip(labels, above, strict=True)
    ]
    last = _ROW + 8 if wide else 2 * LINE_PX + _BAR + 14
    bottom = _TOP + sum(heights) + last
    legend = legend_rows(tuple(_legend()), width)
    result = Drawing(
        "way",
        format_,
        bottom + 40 + len(legend) * (LINE_PX + 2) + 8,
        title="From nothing to the first answer",
        description=_in_words(way),
    )
    end = max(way.high_seconds, *(step.begins_seconds + step.high_seconds for step in way.steps))
    times = max(text_width(_times(way), bold=True), *(text_width(_times(step)) for step in way.steps))
    x = Scale(0, end, _LABELS_WIDE, width - times - 14) if wide else Scale(0, end, 2, width - 6)
    _axis(result, x, bottom)
    top = _TOP
    for step, lines, height, over in zip(way.steps, labels, heights, above, strict=True):
        middle = top + height / 2 if wide else top + over + _BAR / 2 + 2
        style = "critical-text halo" if step.critical else "halo"
        first = middle + CAPITAL_PX / 2 - (len(lines) - 1) * LINE_PX / 2 if wide else top + 13
        for row, words in enumerate(lines):
            result.text(0, first + row * LINE_PX, words, style)
        if wide:
            result.text(width, middle + CAPITAL_PX / 2, _times(step), "tick", anchor="end")
        else:
            result.text(0, first + len(lines) * LINE_PX, _times(step), "tick halo")
        _bar(result, step, x, middle)
        top += height
    _whole(result, way, x, top, wide=wide)
    draw_legend(result, legend, 0, bottom + 54)
    return result


def _bar(drawing: Drawing, step: Step, x: Scale, y: float) -> None:
    left, right = x(step.begins_seconds), x(step.ends_seconds)
    words = f"{step.title}: minute {step.begins_seconds / 60:.1f} to {step.ends_seconds / 60:.1f}, likely"
    style = "step critical" if step.critical else "step"
    drawing.rectangle(left, y - _BAR / 2, max(1.0, right - left), _BAR, style, title=words)
    _whisker(drawing, x(step.begins_seconds + step.low_seconds), x(step.begins_seconds + step.high_seconds), y)


def _whole(drawing: Drawing, way: TimeToServe, x: Scale, top: float, *, wide: bool) -> None:
    drawing.line(0, top + 3, drawing.width, top + 3, "grid")
    label = "first answer"
    times = _times(way)
    y = top + 8 + _ROW / 2 if wide else top + 2 * LINE_PX + _BAR / 2 + 8
    base = y + CAPITAL_PX / 2 if wide else top + LINE_PX + 4
    drawing.text(0, base, label, "critical-text")
    if wide:
        drawing.text(drawing.width, base, times, "critical-text", anchor="end")
    else:
        drawing.text(0, base + LINE_PX, times, "critical-text")
    _whisker(drawing, x(way.low_seconds), x(way.high_seconds), y)
    drawing.mark(x(way.likely_seconds), y, "diamond", "first-answer", title=f"first answer: {times}")


def _whisker(drawing: Drawing, left: float, right: float, y: float) -> None:
    drawing.line(left, y, right, y, "whisker")
    for end in (left, right):
        drawing.line(end, y - 4, end, y + 4, "whisker")


def _axis(drawing: Drawing, x: Scale, bottom: float) -> None:
    minutes = x.high / 60
    most = _MOST_TICKS[drawing.format]
    step = next((one for one in _TICK_MINUTES if minutes / one <= most), _TICK_MINUTES[-1])
    number = 0
    while number * step <= minutes:
        at = x(number * step * 60)
        drawing.line(at, _TOP, at, bottom, "grid")
        drawing.tick(at, bottom + 16, f"{number * step:g}")
        number += 1
    drawing.tick((x.start + x.end) / 2, bottom + 33, "minutes")


def _label(step: Step) -> str:
    return f"{'● ' if step.critical else ''}{step.title}"


def _times(of: Step | TimeToServe) -> str:
    likely, low, high = duration(of.likely_seconds), duration(of.low_seconds), duration(of.high_seconds)
    return likely if low == high else f"{likely} ({low} to {high})"


def _legend() -> Iterator[LegendEntry]:
    yield LegendEntry(words="● decides when the fleet serves (critical path)", style="step critical", mark="band")
    yield LegendEntry(words="beside it", style="step", mark="band")
    yield LegendEntry(words="from low to high", style="whisker", mark="line")


def _in_words(way: TimeToServe) -> str:
    decide = ", ".join(step.title for step in way.critical_path)
    return (
        f"{duration(way.likely_seconds)} likely, {duration(way.low_seconds)} to {duration(way.high_seconds)}. "
        f"What decides: {decide}."
    )
