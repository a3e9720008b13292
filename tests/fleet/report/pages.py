"""A page and a drawing taken apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser

from fleet.report.svg import text_width

_VOID = {"meta", "br", "line", "rect", "circle", "polyline", "polygon"}
ASCENT, DESCENT = 9.5, 3.0
"""Of the drawing's type, above and below the base line."""


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    ancestors: tuple[Element, ...] = ()
    pieces: list[str] = field(default_factory=list)

    @cached_property
    def words(self) -> str:
        return "".join(self.pieces)

    def inside(self, tag: str) -> bool:
        return any(one.tag == tag for one in self.ancestors)


@dataclass
class Label:
    """Words of a drawing with the box they may take."""

    words: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Label) -> bool:
        return (
            self.left < other.right - 0.5
            and other.left < self.right - 0.5
            and self.top < other.bottom - 0.5
            and other.top < self.bottom - 0.5
        )


class Page(HTMLParser):
    """Every element of a page; raises AssertionError where tags do not close each other."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, [one.tag for one in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = Element(tag, {name: value or "" for name, value in attrs}, ancestors=tuple(self._open))
        self.elements.append(found)
        if tag not in _VOID or (tag not in ("meta", "br") and not self._is_closed_at_once()):
            self._open.append(found)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}, ancestors=tuple(self._open)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, (tag, self._open[-1].tag, self.getpos())
        self._open.pop()

    def handle_data(self, data: str) -> None:
        words = data.replace("\N{NO-BREAK SPACE}", " ")
        for element in self._open:
            element.pieces.append(words)

    def _is_closed_at_once(self) -> bool:
        return (self.get_starttag_text() or "").endswith("/>")

    def all(self, tag: str) -> list[Element]:
        return [one for one in self.elements if one.tag == tag]

    @property
    def ids(self) -> list[str]:
        return [one.attributes["id"] for one in self.elements if "id" in one.attributes]

    @property
    def words(self) -> str:
        """What a reader sees, with ordinary spaces."""
        body = next(one for one in self.elements if one.tag in ("body", "svg"))
        return " ".join(body.words.split())

    def cells(self, table: str) -> list[list[str]]:
        rows: dict[int, list[str]] = {}
        for one in self.elements:
            if any(up.attributes.get("id") == table for up in one.ancestors):
                if one.tag == "tr":
                    rows[id(one)] = []
                elif one.tag in ("td", "th"):
                    rows[id(one.ancestors[-1])].append(" ".join(one.words.split()))
        return list(rows.values())


@dataclass
class Drawn:
    """One drawing taken apart."""

    width: float
    height: float
    labels: list[Label] = field(default_factory=list)
    points: list[tuple[float, float]] = field(default_factory=list)


def taken_apart(markup: str) -> Drawn:
    page = Page(markup)
    box = page.all("svg")[0].attributes["viewbox"].split()
    drawn = Drawn(width=float(box[2]), height=float(box[3]))
    for one in page.elements:
        at = one.attributes
        if one.tag == "text":
            drawn.labels.append(_label(one))
        elif one.tag == "line":
            drawn.points += [(float(at["x1"]), float(at["y1"])), (float(at["x2"]), float(at["y2"]))]
        elif one.tag == "rect":
            left, top = float(at["x"]), float(at["y"])
            drawn.points += [(left, top), (left + float(at["width"]), top + float(at["height"]))]
        elif one.tag == "circle":
            drawn.points.append((float(at["cx"]), float(at["cy"])))
        elif one.tag in ("polyline", "polygon"):
            pairs = (pair.split(",") for pair in at["points"].split())
            drawn.points += [(float(x), float(y)) for x, y in pairs]
    return drawn


def _label(element: Element) -> Label:
    at = element.attributes
    bold = bool({"panel-title", "chosen", "critical-text"} & set(at.get("class", "").split()))
    width = text_width(element.words, bold=bold)
    x, y = float(at["x"]), float(at["y"])
    left = {"start": x, "middle": x - width / 2, "end": x - width}[at.get("text-anchor", "start")]
    return Label(element.words, left, y - ASCENT, left + width, y + DESCENT)
