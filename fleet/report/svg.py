"""A drawing as SVG, element by element. Colors are classes of the page's style, so that one drawing serves day, night and paper.

Every drawing has two formats: the wide one for screens and paper, the narrow one for a phone, where a scaled-down wide one
would be too small to read. Words know how wide they may become, so that a layout can leave room for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Literal

Format = Literal["wide", "narrow"]
Anchor = Literal["start", "middle", "end"]
Mark = Literal["dot", "ring", "square", "diamond", "star"]
Point = tuple[float, float]

WIDTH = {"wide": 920.0, "narrow": 343.0}
"""Width of a drawing by format: a page's text, and a phone of 375 pixels without its margins."""
TYPE_PX = 12.0
LINE_PX = 16.0
"""From one line of text to the next."""
CAPITAL_PX = 9.0
"""Height of a capital in that type; half of it centres a word on a line."""

# Measured: DejaVu Sans, the widest of the fonts that browsers fall back to, in thousandths of the type's size.
_WIDTHS = {
    280: "'ijl",
    320: "IJ ,.·\N{NO-BREAK SPACE}",
    340: "/:;|",
    365: "f-",
    415: "()[]t!r",
    530: "sz?*_–",
    580: "cLFk",
    620: "vxyPTYoae",
    640: "EhnuSbdgpq0123456789$",
    700: "KAVXZBRC",
    790: "UNHDGOQ&",
    990: "mMW%",
    1000: "@—…",
}
_WIDTH_OF = {character: width for width, characters in _WIDTHS.items() for character in characters}
_WIDEST_OTHER = 840
_BOLD = 1.15


def text_width(words: str, *, bold: bool = False) -> float:
    """Pixels that the words take at most."""
    thousandths = sum(_WIDTH_OF.get(character, _WIDEST_OTHER) for character in words)
    return thousandths * TYPE_PX / 1000 * (_BOLD if bold else 1)


def lines_of(words: str, width: float, *, bold: bool = False) -> tuple[str, ...]:
    """The words broken into lines of that many pixels; a word that is longer by itself is cut, with an ellipsis."""
    lines: list[str] = []
    for word in words.split(" "):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(_cut(word, width, bold=bold))
    return tuple(lines)


def _cut(word: str, width: float, *, bold: bool) -> str:
    if text_width(word, bold=bold) <= width:
        return word
    kept = word
    while kept and text_width(kept + "…", bold=bold) > width:
        kept = kept[:-1]
    return kept + "…"


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to pixels, linear."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of that value."""
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class LogScale:
    """From values above 0 to pixels, by their logarithm."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of that value."""
        share = log10(value / self.low) / log10(self.high / self.low)
        return self.start + (self.end - self.start) * share


def round_ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    """At most that many round values between low and high, 1, 2 or 5 times a power of ten apart."""
    step = _round_up((high - low) / most)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return tuple(number * step for number in range(first, last + 1))


def round_above(value: float, most: int) -> float:
    """The end of an axis from 0 that holds the value: whole steps of `round_ticks`."""
    step = _round_up(value / most)
    return ceil(value / step - 1e-9) * step


def _round_up(value: float) -> float:
    power = 10.0 ** floor(log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value * (1 - 1e-9))


class Drawing:
    """Elements of one SVG. Read aloud it is its title and its description."""

    def __init__(self, id_: str, format_: Format, height: float, *, title: str, description: str) -> None:
        self.id = f"{id_}-{format_}"
        self.format = format_
        self.width = WIDTH[format_]
        self.height = height
        self.title = title
        self.description = description
        self._elements: list[str] = []

    def markup(self) -> str:
        """The whole `<svg>` element."""
        width, height = _number(self.width), _number(self.height)
        return "\n".join(
            (
                f'<svg id="{self.id}" class="{self.format}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
                f'role="img" aria-labelledby="{self.id}-title" aria-describedby="{self.id}-desc">',
                f'<title id="{self.id}-title">{escape(self.title)}</title>',
                f'<desc id="{self.id}-desc">{escape(self.description)}</desc>',
                *self._elements,
                "</svg>",
            )
        )

    def text(self, x: float, y: float, words: str, style: str = "", *, anchor: Anchor = "start") -> None:
        """Words on the base line y."""
        placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._elements.append(
            f'<text{_class(style)} x="{_number(x)}" y="{_number(y)}"{placed}>{escape(words, quote=False)}</text>'
        )

    def tick(self, x: float, y: float, words: str) -> None:
        """Words of an axis, centred on x, or as near to it as the drawing allows."""
        half = text_width(words) / 2
        self.text(min(max(x, half), self.width - half), y, words, "tick", anchor="middle")

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """A straight line."""
        ends = f'x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"'
        self._elements.append(f"<line{_class(style)} {ends}/>")

    def rectangle(self, x: float, y: float, width: float, height: float, style: str, *, title: str = "") -> None:
        """A filled rectangle; `title` is shown to a pointer that rests on it."""
        box = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
        self._add("rect", f"{_class(style)} {box}", title)

    def curve(self, points: Iterable[Point], style: str) -> None:
        """An open line through points."""
        self._elements.append(f'<polyline{_class(style)} points="{_points(points)}"/>')

    def mark(self, x: float, y: float, shape: Mark, style: str, *, title: str = "") -> None:
        """A point. Shapes differ, so that nothing rests on color alone."""
        if shape in ("dot", "ring"):
            self._add("circle", f'{_class(style)} cx="{_number(x)}" cy="{_number(y)}" r="4.5"', title)
            return
        outline = {
            "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
            "diamond": ((0, -6), (6, 0), (0, 6), (-6, 0)),
            "star": (
                (0, -9),
                (2.4, -2.8),
                (8.6, -2.8),
                (3.6, 1.2),
                (5.4, 7.4),
                (0, 3.6),
                (-5.4, 7.4),
                (-3.6, 1.2),
                (-8.6, -2.8),
                (-2.4, -2.8),
            ),
        }[shape]
        self._add("polygon", f'{_class(style)} points="{_points((x + dx, y + dy) for dx, dy in outline)}"', title)

    def _add(self, name: str, attributes: str, title: str) -> None:
        inside = f"<title>{escape(title, quote=False)}</title>" if title else ""
        self._elements.append(f"<{name}{attributes}>{inside}</{name}>" if inside else f"<{name}{attributes}/>")


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendEntry:
    """What a sign stands for."""

    words: str
    style: str
    mark: Mark | Literal["line", "band"]


LEGEND_SIGN_PX = 26.0
_LEGEND_GAP_PX = 18.0


def legend_rows(entries: Sequence[LegendEntry], width: float) -> tuple[tuple[LegendEntry, ...], ...]:
    """The entries in as few rows of that width as hold them."""
    rows: list[list[LegendEntry]] = []
    used = 0.0
    for entry in entries:
        wide = LEGEND_SIGN_PX + text_width(entry.words) + _LEGEND_GAP_PX
        if rows and used + wide <= width:
            rows[-1].append(entry)
            used += wide
        else:
            rows.append([entry])
            used = wide
    return tuple(tuple(row) for row in rows)


def draw_legend(drawing: Drawing, rows: Sequence[Sequence[LegendEntry]], x: float, y: float) -> None:
    """The rows from the base line y downwards."""
    for number, row in enumerate(rows):
        left, base = x, y + number * (LINE_PX + 2)
        for entry in row:
            _sign(drawing, entry, left + 9, base - CAPITAL_PX / 2)
            drawing.text(left + LEGEND_SIGN_PX, base, entry.words)
            left += LEGEND_SIGN_PX + text_width(entry.words) + _LEGEND_GAP_PX


def _sign(drawing: Drawing, entry: LegendEntry, x: float, y: float) -> None:
    if entry.mark == "line":
        drawing.line(x - 9, y, x + 9, y, entry.style)
    elif entry.mark == "band":
        drawing.rectangle(x - 9, y - 5, 18, 10, entry.style)
    else:
        drawing.mark(x, y, entry.mark, entry.style)


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _class(style: str) -> str:
    return f' class="{style}"' if style else ""


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
