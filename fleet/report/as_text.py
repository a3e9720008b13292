"""An outline on a terminal, 60 columns wide at least. No line but what is there to be copied exceeds the width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from facts.finding import MARKS, Finding, headline
from facts.texts import plural
from fleet.report.outline import (
    Box,
    Branch,
    Code,
    Edit,
    Element,
    Figure,
    Findings,
    Items,
    Next,
    Outline,
    Prose,
    Section,
    Tiles,
    Tone,
    Tree,
    grouped,
    shown_in,
)
from fleet.report.table import Cell, Table
from fleet.report.terminal import Page, Paper, Part

STYLES: Final[dict[Tone, str]] = {
    "plain": "",
    "strong": "bold",
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
    "soft": "dim",
}
_SEVERITIES: Final = {
    "error": "bold red",
    "warning": "yellow",
    "deliberate": "yellow",
    "note": "dim",
    "passed": "green",
    "unknown": "yellow",
}
_CHANGES: Final = {"+": "green", "~": "yellow", "+-": "bold magenta", "-": "bold red", "?": "dim", "": "dim"}
_SIGNS: Final = {"+": "green", "-": "bold red"}
_GAP: Final = 2
"""Columns between two columns of a table."""
_STICKS: Final = "\N{NO-BREAK SPACE}"
_SHORT: Final = 20
"""Characters of a title with its number that stay on one line."""
_NARROWEST: Final = 12
"""Columns that a column of words keeps."""
_COMMAND: Final = re.compile(r"(curl|fleet|gcloud|helm|kubectl|make|pip|pulumi|python3?|sed) |https://")
_MOST_PLACES: Final = 8
"""Subjects shown of findings that say the same; the JSON document has all."""
_MOST_EDITS: Final = 16
"""Properties shown of one resource; the JSON document has all."""


def print_text(paper: Paper, outline: Outline) -> None:
    """Write the report to `paper`."""
    page = Page(paper)
    page.heading(outline.title, outline.kind)
    if outline.verdict:
        page.prose(outline.verdict, indent=0, style=STYLES[outline.tone])
    _Text(page).elements(outline.head, indent=0)
    if outline.body and not (isinstance(outline.body[0], Section) or _stands_apart(outline.body[0], None)):
        page.blank()
    _Text(page).elements(outline.body, indent=0)
    for sentence in outline.footer:
        page.blank()
        page.prose(sentence, indent=0, style="dim")
    page.print()


class _Text:
    def __init__(self, page: Page) -> None:
        self._page = page

    def elements(self, elements: Iterable[Element], *, indent: int, depth: int = 0) -> None:
        """Each element; boxes, trees and next steps stand apart from what is above them."""
        before: Element | None = None
        for element in shown_in("text", elements):
            if isinstance(element, Figure) and not element.words:
                continue
            if _stands_apart(element, before) and (before is not None or depth == 0):
                self._page.blank()
            self._element(element, indent, depth)
            before = element

    def _element(self, element: Element, indent: int, depth: int) -> None:
        page = self._page
        match element:
            case Section():
                self._section(element, indent, depth)
            case Prose(text, tone):
                page.prose(text, indent=indent, style=STYLES[tone])
            case Items(items, tone):
                for item in items:
                    page.prose(item, indent=indent, mark="· ", style=STYLES[tone], mark_style="dim")
            case Tiles(numbers):
                rows = [
                    (number.name, " ".join(filter(None, (number.now, number.unit))), number.more) for number in numbers
                ]
                self._rows((False, False, False), rows, indent, styles=("", "bold", "dim"))
            case Table():
                self._table(element, indent)
            case Code(lines):
                for line in lines:
                    page.line(" " * indent, line)
            case Next(command, remark):
                page.pointer(command, f"  {remark}" if remark else "", indent=indent)
            case Figure():
                self.elements(element.words, indent=indent, depth=depth)
            case Box():
                self._box(element, indent)
            case Finding():
                self._group([element], indent)
            case Findings(findings, explains_passed):
                for group in grouped(findings):
                    self._group(group, indent, explains_passed=explains_passed)
            case Tree(top):
                self._tree(top)

    def _section(self, section: Section, indent: int, depth: int) -> None:
        style = STYLES[section.tone] or "bold"
        if section.folding == "always":
            self._page.blank()
            self._page.prose(
                section.title + (f" · {section.remark}" if section.remark else ""),
                indent=indent,
                mark="▸ ",
                style="dim",
            )
            return
        if depth == 0:
            self._page.title(section.title, section.remark, style)
        else:
            self._page.blank()
            self._page.line(
                " " * indent, (section.title, style), (f"  {section.remark}" if section.remark else "", "dim")
            )
        self.elements(section.body, indent=indent + 2, depth=depth + 1)

    def _box(self, box: Box, indent: int) -> None:
        style = STYLES[box.tone]
        mark, mark_style = ("!! ", "bold white on red") if box.tone == "bad" else ("! ", style)
        first = Prose(box.title, box.tone) if box.title else None
        for element in (*([first] if first else []), *box.body):
            if isinstance(element, Prose):
                self._page.prose(element.text, indent=indent, mark=mark, style=style, mark_style=mark_style)
            else:
                self._element(element, indent + len(mark), 1)

    # Findings ---------------------------------------------------------------------------------------------------------

    def _group(self, group: Sequence[Finding], indent: int, *, explains_passed: bool = False) -> None:
        first, style = group[0], _SEVERITIES[group[0].severity]
        mark = f"{MARKS[first.severity]} "
        if first.severity == "passed" and not explains_passed:
            held = f" ({first.allowed})" if first.allowed else ""
            self._page.prose(headline(first) + held, indent=indent, mark=mark, mark_style=style)
            return
        told = "" if first.severity == "passed" else _told(first)
        tail = f" ({told})".replace(", ", ",\N{NO-BREAK SPACE}") if told else ""
        if len(group) == 1:
            self._page.prose(headline(first) + tail, indent=indent, mark=mark, style=style, mark_style=style)
        else:
            head = f"{first.id}: {plural(len(group), 'place')} ({first.severity})"
            self._page.prose(head, indent=indent, mark=mark, style=style, mark_style=style)
            for finding in group[:_MOST_PLACES]:
                self._page.prose(headline(finding), indent=indent + 4, mark="· ", mark_style="dim")
            if (more := len(group) - _MOST_PLACES) > 0:
                self._page.prose(f"… {more} more (--format json has all)", indent=indent + 4, style="dim")
        for label, text in first.details():
            if label != "write":
                self._page.prose(f"{label}: {text}", indent=indent + 4, style="dim" * (label == "allowed"))
                continue
            for number, line in enumerate(text.splitlines()):
                mark = "  " if number else "→ "
                if _COMMAND.match(line):  # to be copied: never broken
                    self._page.line(" " * (indent + 4), (mark, "dim"), (line, "bold"))
                else:
                    self._page.prose(line, indent=indent + 4, mark=mark, style="bold", mark_style="dim")

    # Tables -----------------------------------------------------------------------------------------------------------

    def _table(self, table: Table, indent: int) -> None:
        columns = _fitting(table, self._page.width - indent)
        head = tuple(table.columns[column].title for column in columns)
        are_numbers = tuple(table.columns[column].is_number for column in columns)
        several = [[row[column] for column in columns if column < len(row)] for row in table.rows]
        foot = [[table.foot[column].text for column in columns]] if table.foot else []
        beside = [[_with_note(cell) for cell in row] for row in several]
        if _wide([head, *beside, *foot]) <= self._page.width - indent:
            self._rows(are_numbers, [*beside, *foot], indent, head=head, chosen=table.chosen)
            return
        rows = [[cell.text for cell in row] for row in several]
        notes = [[cell.note for cell in row if cell.note] for row in several]
        self._rows(are_numbers, [*rows, *foot], indent, head=head, notes=notes, chosen=table.chosen)

    def _rows(
        self,
        are_numbers: Sequence[bool],
        rows: Sequence[Sequence[str]],
        indent: int,
        *,
        head: Sequence[str] = (),
        notes: Sequence[Sequence[str]] = (),
        styles: Sequence[str] = (),
        chosen: int | None = None,
    ) -> None:
        if not rows:
            return
        room = self._page.width - indent
        widths = _widths([*([head] if head else []), *rows], are_numbers, room)
        if widths is None:
            self._blocks(head or [""] * len(rows[0]), are_numbers, rows, indent)
            return
        if any(head):
            for line in _lines(head, are_numbers, widths):
                self._page.line(" " * indent, ("".join(line).rstrip(), "dim"))
        for number, row in enumerate(rows):
            for cells in _lines(row, are_numbers, widths):
                parts: list[Part] = [
                    (cell, "bold" if number == chosen else styles[column] if styles else "")
                    for column, cell in enumerate(cells)
                ]
                self._page.line(" " * indent, *_stripped(parts))
            for note in notes[number] if number < len(notes) else ():
                self._page.prose(note, indent=indent + 2, style="dim")

    def _blocks(
        self, head: Sequence[str], are_numbers: Sequence[bool], rows: Sequence[Sequence[str]], indent: int
    ) -> None:
        """A table that is too wide: every row as a block, each cell with its column's title, numbers beside each other."""
        for row in rows:
            self._page.prose(row[0], indent=indent, style="bold")
            cells = [cell for cell in zip(are_numbers[1:], head[1:], row[1:], strict=False) if cell[2]]
            for is_number, beside in groupby(cells, key=lambda cell: cell[0]):
                lines = [f"{title}: {text}" if title else text for _, title, text in beside]
                if is_number:
                    whole = (line.replace(" ", _STICKS) if len(line) <= _SHORT else line for line in lines)
                    lines = [f"{_STICKS}· ".join(whole)]
                for line in lines:
                    self._page.prose(line, indent=indent + 2)

    # Trees ------------------------------------------------------------------------------------------------------------

    def _tree(self, top: Branch) -> None:
        rows = list(_branches(top))
        longest = max(len(prefix) + len(branch.kind) + 1 + len(branch.name) for branch, prefix, _ in rows)
        # Facts start in one column, at most at half the width.
        column = min(longest + _GAP, self._page.width // 2 - 3)
        for branch, prefix, below in rows:
            self._branch(branch, prefix, below, column)

    def _branch(self, branch: Branch, prefix: str, below: str, column: int) -> None:
        style = _CHANGES[branch.mark]
        kind = f"{branch.kind} " if branch.kind else ""
        used = len(prefix) + len(kind) + len(branch.name)
        label: list[Part] = [
            (f"{branch.mark:>2} ", style),
            (prefix, "dim"),
            (kind, "dim" if branch.is_group else "cyan"),
        ]
        label.append((branch.name, "bold" if branch.is_group else ""))
        facts_style = style if branch.mark in ("-", "+-") else "dim"
        facts = _wrapped(branch.facts, self._page.width - 3 - column) if branch.facts else []
        if facts and used + _GAP <= column:
            label += [" " * (column - used), (facts.pop(0), facts_style)]
        elif branch.facts and 3 + used + _GAP + len(branch.facts) <= self._page.width:
            label += ["  ", (branch.facts, facts_style)]
            facts = []
        self._page.line(*label)
        for line in facts:
            self._page.line("   ", (below.ljust(column), "dim"), (line, facts_style))
        margin = f"   {below}  "
        for reason in branch.reasons:
            for number, line in enumerate(_wrapped(reason, self._page.width - len(margin) - 2)):
                self._page.line((margin, "dim"), ("  " if number else "! ", "bold magenta"), (line, "magenta"))
        if branch.is_folded and branch.edits:
            self._page.line((margin, "dim"), (f"▸ {plural(len(branch.edits), 'difference')}", "dim"))
            return
        for edit in branch.edits[:_MOST_EDITS]:
            self._edit(edit, margin)
        if len(branch.edits) > _MOST_EDITS:
            self._page.line(
                (margin, "dim"), (f"… {len(branch.edits) - _MOST_EDITS} more (--format json has all)", "dim")
            )

    def _edit(self, edit: Edit, margin: str) -> None:
        path = _end_of(edit.path, self._page.width - len(margin) - len(edit.mark) - 1)
        head: list[Part] = [(margin, "dim"), (edit.mark, _CHANGES[edit.mark]), " ", path]
        room = max(20, self._page.width - len(margin) - 6)
        if edit.lines:
            self._page.line(*head)
            for sign, text in edit.lines:
                self._page.line((margin, "dim"), "    ", (f"{sign} {text}"[:room], _SIGNS.get(sign, "dim")))
            return
        arrow = " → " if edit.before and edit.after else ""
        told = edit.remark or f"{edit.before}{arrow}{edit.after}"
        if len(margin) + 2 + len(path) + _GAP + len(told) <= self._page.width:
            sides: list[Part] = (
                [(edit.remark, "dim")]
                if edit.remark
                else [(edit.before, _side(edit, "red")), (arrow, "dim"), (edit.after, _side(edit, "green"))]
            )
            self._page.line(*head, "  ", *sides)
            return
        self._page.line(*head)
        for sign, text, style in (
            ("- ", edit.before, _side(edit, "red")),
            ("+ ", edit.after, _side(edit, "green")),
            ("  ", edit.remark, "dim"),
        ):
            for number, line in enumerate(textwrap.wrap(text, room, break_on_hyphens=False)):
                self._page.line((margin, "dim"), "    ", ("  " if number else sign, style), (line, style))


def _stands_apart(element: Element, before: Element | None) -> bool:
    if isinstance(before, Section) and not isinstance(element, Section):
        return True
    if isinstance(element, Table | Findings):
        return isinstance(before, Table | Findings | Figure)
    return isinstance(element, Box | Tiles | Tree | Next) and not (
        isinstance(element, Next) and isinstance(before, Next)
    )


def _told(finding: Finding) -> str:
    """Severity and id that the headline does not show."""
    severity = "" if finding.severity == "note" else finding.severity
    id_ = "" if finding.id == finding.subject.replace(" ", "-") else finding.id
    return ", ".join(filter(None, (severity, id_)))


def _end_of(path: str, room: int) -> str:
    """The path, or its end after an ellipsis: the last names tell the property."""
    return path if len(path) <= room else f"…{path[len(path) - max(20, room) + 1 :]}"


def _side(edit: Edit, style: str) -> str:
    return "dim" if edit.mark == "?" else style


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False)


def _stripped(parts: list[Part]) -> list[Part]:
    """Without blanks at the end of the line."""
    while parts and not parts[-1][0].strip():
        parts.pop()
    if parts:
        parts[-1] = (parts[-1][0].rstrip(), parts[-1][1])
    return parts


def _with_note(cell: Cell) -> str:
    return f"{cell.text} ({cell.note})" if cell.note else cell.text


def _wide(rows: Sequence[Sequence[str]]) -> int:
    """Columns that the rows take without a broken line."""
    widths = [max(len(row[column]) for row in rows if column < len(row)) for column in range(len(rows[0]))]
    return sum(widths) + _GAP * (len(widths) - 1)


def _fitting(table: Table, room: int) -> list[int]:
    """The columns of the table, without those that may be left out and have no room."""
    kept = list(range(len(table.columns)))
    rows = [[column.title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
    for column in reversed(range(len(table.columns))):
        if not table.columns[column].is_optional:
            continue
        if _wide([[row[one] for one in kept if one < len(row)] for row in rows]) <= room:
            break
        kept.remove(column)
    return kept


def _widths(rows: Sequence[Sequence[str]], are_numbers: Sequence[bool], room: int) -> list[int] | None:
    """Columns for each column. Texts wrap between words where the rows are too wide; None where even that does not fit.

    A word is never broken: an id or a path is there to be copied.
    """
    widths = [
        max((len(row[column]) for row in rows if column < len(row)), default=0) for column in range(len(are_numbers))
    ]
    least = [
        max((len(word) for row in rows if column < len(row) for word in row[column].split()), default=0)
        for column in range(len(are_numbers))
    ]
    gaps = _GAP * (len(widths) - 1)
    while sum(widths) + gaps > room:
        words = [
            column
            for column, is_number in enumerate(are_numbers)
            if not is_number and widths[column] > max(_NARROWEST, least[column])
        ]
        if not words:
            return None
        widest = max(words, key=lambda column: widths[column])
        spare = widths[widest] - max(_NARROWEST, least[widest])
        widths[widest] -= min(spare, sum(widths) + gaps - room, max(1, widths[widest] // 8))
    return widths


def _lines(row: Sequence[str], are_numbers: Sequence[bool], widths: Sequence[int]) -> Iterator[list[str]]:
    """The lines of one row, as cells padded to their columns."""
    cells = [
        textwrap.wrap(text, max(1, width), break_long_words=False, break_on_hyphens=False) or [""]
        for text, width in zip(row, widths, strict=False)
    ]
    for line in range(max(map(len, cells))):
        texts = [cell[line] if line < len(cell) else "" for cell in cells]
        padded = [
            text.rjust(width) if is_number else text.ljust(width)
            for text, is_number, width in zip(texts, are_numbers, widths, strict=False)
        ]
        yield [text + " " * _GAP for text in padded[:-1]] + padded[-1:]


def _branches(branch: Branch, prefix: str = "", below: str = "") -> Iterator[tuple[Branch, str, str]]:
    """Every branch with its guides, and those of the lines below it."""
    yield branch, prefix, below + ("│  " if branch.children else "   " if branch.edits or branch.reasons else "")
    last = len(branch.children) - 1
    for index, child in enumerate(branch.children):
        fork, trunk = ("└─ ", "   ") if index == last else ("├─ ", "│  ")
        yield from _branches(child, below + fork, below + trunk)
