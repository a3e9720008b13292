"""A report as an outline, built once, that becomes one Markdown text: a terminal prints it and a page shows it.

An outline has a verdict, some elements below it, and sections of elements, in the order in which they are read. In every text, what
stands between backticks is code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from facts.finding import Finding
from fleet.report.table import Table

Tone = Literal["plain", "strong", "good", "warn", "bad", "soft"]
"""What a text means to its reader. `strong` and `bad` are bold; a title and a box have colors."""
Folding = Literal["open", "screen", "always"]
"""`screen`: a terminal tells only the title, unless details are asked for. `always`: Markdown and the page fold it, too."""
Format = Literal["wide", "narrow"]
"""Of a drawing: for a screen, or for a phone."""
Mark = Literal["", "+", "~", "-", "+-", "?"]
"""What happens to a resource or a property: create, update, delete, replace, may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One of the numbers at the head of a report."""

    name: str
    now: str
    unit: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[str, ...]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Tiles:
    """Numbers at the head of a report or section."""

    numbers: tuple[Number, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to copy, as they are."""

    lines: tuple[str, ...]
    language: str = "text"


@dataclass(frozen=True, slots=True)
class Next:
    """A command to type next, or a file to open."""

    command: str
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing of the page. Markdown and a terminal leave it out."""

    drawn: Callable[[Format], str]
    """Its `<svg>` element, of class `wide` or `narrow`."""
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What a reader must see first: a danger, a verdict."""

    body: tuple[Element, ...]
    tone: Tone = "bad"
    title: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings in order. Neighbours that differ only in subject and value are shown as one, with all subjects."""

    findings: tuple[Finding, ...]
    explains_passed: bool = False
    """Whether what passed is shown with its reason, too, instead of on one line."""
    is_brief: bool = False
    """Whether each takes one line: another section has the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """How one property differs."""

    path: str
    mark: Mark
    before: str = ""
    after: str = ""
    remark: str = ""
    """In place of the values, e.g. of a secret."""
    lines: tuple[tuple[str, str], ...] = ()
    """Of a text of several lines, in place of the values: sign (`+`, `-`, blank or `…`) and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A resource, and those below it."""

    name: str
    kind: str = ""
    mark: Mark = ""
    facts: str = ""
    reasons: tuple[str, ...] = ()
    """Why it is replaced or deleted."""
    edits: tuple[Edit, ...] = ()
    children: tuple[Branch, ...] = ()
    is_folded: bool = False
    """Whether its edits are counted instead of shown, where nothing can be unfolded."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of resources."""

    top: Branch


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What is longer than a terminal's first screen has room for."""

    on_screen: tuple[Element, ...]
    """What the first screen says instead, and that there is more."""
    whole: tuple[Element, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    title: str
    body: tuple[Element, ...]
    remark: str = ""
    """Beside the heading: where the section's figures come from, a count, a verdict."""
    tone: Tone = "plain"
    folding: Folding = "open"
    id: str = ""
    """What a test asks for: titles are wording."""
    rank: int = 0
    """Sections of the highest rank are left out first where a medium limits the length; rank 0 stays as long as possible."""


Element = Prose | Items | Tiles | Table | Code | Next | Figure | Box | Finding | Findings | Tree | Brief | Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A whole report."""

    title: str
    """What is reported on, e.g. "vllm-fleet / spot"."""
    kind: str = ""
    """Which report this is, e.g. "offline preview"."""
    verdict: str = ""
    """The answer in one line; part of the title in Markdown."""
    tone: Tone = "plain"
    """Of the verdict: the color of its line."""
    head: tuple[Element, ...] = ()
    """Below the verdict, before the first section."""
    body: tuple[Element, ...] = ()
    footer: tuple[str, ...] = ()
    """What the report is and is not."""
    elsewhere: str = ""
    """Where to find what was left out for length, as a sentence."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The documented keys of the JSON document; findings are added by the renderer."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding of the report, in order."""
        return tuple(_findings((*self.head, *self.body)))


def some(*elements: Element | None) -> tuple[Element, ...]:
    """The elements that are there."""
    return tuple(element for element in elements if element is not None)


def next_steps(*commands: str) -> Section:
    """The commands that come next, at the end of a report."""
    return Section(title="Next", body=tuple(map(Next, commands)))


def shown(elements: Iterable[Element]) -> Iterator[Element]:
    """The elements without empty sections."""
    return (element for element in elements if not isinstance(element, Section) or element.body)


def first_screen(outline: Outline) -> Outline:
    """What a terminal shows where no details are asked for: one line names the sections that are folded."""
    folded: dict[str, None] = {}
    head, body = (tuple(_screen(elements, folded)) for elements in (outline.head, outline.body))
    more = f"Folded: {', '.join(folded)}. {outline.elsewhere}".rstrip()
    return replace(outline, head=head, body=(*body, Prose(more, "soft")) if folded else body)


def _screen(elements: Iterable[Element], folded: dict[str, None]) -> Iterator[Element]:
    for element in shown(elements):
        if isinstance(element, Brief):
            yield from element.on_screen
        elif not isinstance(element, Section):
            yield element
        elif element.folding == "open":
            yield replace(element, body=tuple(_screen(element.body, folded)))
        else:
            folded[element.title] = None


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Neighbours that differ only in subject and value, together. What passed stands alone."""
    groups: list[list[Finding]] = []
    for finding in findings:
        if groups and finding.severity != "passed" and _shared(groups[-1][-1]) == _shared(finding):
            groups[-1].append(finding)
        else:
            groups.append([finding])
    return groups


def _shared(finding: Finding) -> tuple[str, ...]:
    return finding.id, finding.severity, finding.allowed, finding.why, finding.write


def _findings(elements: Iterable[Element]) -> Iterator[Finding]:
    for element in elements:
        if isinstance(element, Finding):
            yield element
        elif isinstance(element, Findings):
            yield from () if element.is_brief else element.findings
        elif isinstance(element, Section | Box):
            yield from _findings(element.body)
        elif isinstance(element, Brief):
            yield from _findings(element.whole)
