"""An outline as Markdown: the verdict in its title, long parts folded. A comment of GitHub has a limit; the least important goes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from facts.finding import MARKS, Finding, said_of
from facts.texts import plural
from fleet.report.markdown import LIMIT, Part, alert, cell, code, escape, fenced, fold, joined, prose, table
from fleet.report.outline import (
    Box,
    Branch,
    Brief,
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
    shown,
)
from fleet.report.table import Cell, Table

_ALERTS: Final[dict[Tone, str]] = {"bad": "CAUTION", "warn": "WARNING", "good": "TIP"}
_SIGNS: Final = {"+": "+", "-": "-", "~": "!", "+-": "!", "?": "!", "": " "}
"""First characters of a diff's lines, which GitHub colors."""
_MOST_EDITS: Final = 40
"""Properties shown of one resource; the JSON document has all."""
_LONGEST_VALUE: Final = 300
"""Characters of a value in a diff."""
_EMPTY_LINES: Final = re.compile(r"\n{3,}")
_COMMAND: Final = re.compile(r"(curl|fleet|gcloud|helm|kubectl|make|pip|pulumi|python3?|sed) ")
_LEAVES: Final = 3
"""Depth of a heading below which titles are bold text."""


def markdown_text(outline: Outline, *, limit: int = LIMIT) -> str:
    """The report as GitHub-flavored Markdown of at most `limit` characters."""
    title = prose(outline.title) + (f": {prose(outline.verdict)}" if outline.verdict else "")
    head = [f"### {title}", "", *_elements(outline.head, 0)]
    parts = [Part(name="the headline", text=_text(head)), *_parts(outline.body, 0, "")]
    if outline.footer:
        parts.append(Part(name="about", text=_text(f"{prose(sentence)}\n" for sentence in outline.footer), rank=1))
    return joined(parts, elsewhere=outline.elsewhere, limit=limit)


def _parts(elements: Iterable[Element], depth: int, of: str) -> Iterator[Part]:
    """What may be left out by itself: the innermost open sections, each with the heading of those around it."""
    loose: list[Element] = []
    for element in shown(elements):
        if not isinstance(element, Section):
            loose.append(element)
            continue
        if loose:
            yield Part(name=f"the head{of}", text=_text(_elements(loose, depth)))
            loose = []
        yield from _part(element, depth, of)
    if loose:
        yield Part(name=f"the rest{of}", text=_text(_elements(loose, depth)))


def _part(section: Section, depth: int, of: str) -> Iterator[Part]:
    has_sections = any(isinstance(element, Section) for element in section.body)
    if section.folding == "always" or not has_sections:
        yield Part(name=f"{section.title}{of}", text=_text(_section(section, depth)), rank=section.rank)
        return
    head = [element for element in section.body if not isinstance(element, Section)]
    yield Part(name=f"{section.title}{of}", text=_text([*_heading(section, depth), *_elements(head, depth + 1)]))
    nested = [element for element in section.body if isinstance(element, Section)]
    yield from _parts(nested, depth + 1, f" of {section.title}{of}")


def _text(lines: Iterable[str]) -> str:
    """The lines as one text, with one empty line where there are several."""
    return _EMPTY_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


def _heading(section: Section, depth: int) -> Iterator[str]:
    remark = f" · {prose(section.remark)}" if section.remark else ""
    yield ""
    yield (
        f"{'#' * (4 + depth)} {prose(section.title)}{remark}"
        if depth < _LEAVES
        else f"**{prose(section.title)}**{remark}"
    )
    yield ""


def _section(section: Section, depth: int) -> Iterator[str]:
    if section.folding != "always":
        yield from _heading(section, depth)
        yield from _elements(section.body, depth + 1)
    else:
        summary = section.title + (f": {section.remark}" if section.remark else "")
        yield from fold(summary, _elements(section.body, depth + 1))


def _elements(elements: Iterable[Element], depth: int) -> Iterator[str]:
    for is_next, several in groupby(shown(elements), lambda element: isinstance(element, Next)):
        if is_next:
            yield ""
            yield from fenced(map(_next, several), "sh")
        else:
            for element in several:
                yield ""
                yield from _element(element, depth)


def _next(element: Element) -> str:
    assert isinstance(element, Next)
    return element.command + (f"  # {element.remark}" if element.remark else "")


def _element(element: Element, depth: int) -> Iterator[str]:
    match element:
        case Section():
            yield from _section(element, depth)
        case Prose(text, tone):
            yield _toned(prose(text), tone)
        case Items(items, tone):
            yield from (f"- {_toned(prose(item), tone)}" for item in items)
        case Tiles(numbers):
            yield from (
                f"- {escape(number.name)}: **{escape(' '.join(filter(None, (number.now, number.unit))))}**"
                + (f" ({prose(number.more)})" if number.more else "")
                for number in numbers
            )
        case Table():
            yield from _table(element)
        case Code(lines, language):
            yield from fenced(lines, language)
        case Figure():
            pass  # Only a page draws it.
        case Box():
            title = [f"**{prose(element.title)}**", ""] if element.title else []
            yield from alert(
                _ALERTS.get(element.tone, "NOTE"), [*title, *_text(_elements(element.body, depth)).splitlines()]
            )
        case Brief():
            yield from _elements(element.whole, depth)
        case Finding():
            yield from _group([element])
        case Findings(findings, is_brief=True):
            for group in grouped(findings):
                yield _brief(group)
        case Findings(findings, explains_passed):
            for group in grouped(findings):
                yield from _group(group, explains_passed=explains_passed)
        case Tree(top):
            yield from fenced(_branch(top, 0))


def _toned(text: str, tone: Tone) -> str:
    return f"**{text}**" if text and tone in ("strong", "bad") else text


def _brief(group: Sequence[Finding]) -> str:
    first = group[0]
    what = _subject(first) if len(group) == 1 else f"{plural(len(group), 'place')}: {prose(first.subject)}, …"
    on_purpose = "deliberate, " if first.severity == "deliberate" else ""
    return f"- {MARKS[first.severity]} {what} ({on_purpose}{code(first.id)})"


def _group(group: Sequence[Finding], *, explains_passed: bool = False) -> Iterator[str]:
    first = group[0]
    mark = MARKS[first.severity]
    if first.severity == "passed" and not explains_passed:
        yield f"- {mark} {_subject(first)}" + (f" ({prose(first.allowed)})" if first.allowed else "")
        return
    name = "" if first.severity in ("passed", "note") else f" ({first.severity}, {code(first.id)})"
    if len(group) == 1:
        yield f"- {mark} {_subject(first)}{name}"
    else:
        yield f"- {mark} {plural(len(group), 'place')}{name}"
        yield from (f"  - {_subject(finding)}" for finding in group)
    for label, text in first.details():
        if label == "write" and ("\n" in text or _COMMAND.match(text)):  # to be copied: never broken
            yield from ("", *fenced(text.splitlines(), "sh" if _COMMAND.match(text) else "yaml"), "")
        else:
            yield f"  - **{label}**: {prose(text)}" if label == "write" else f"  - {label}: {prose(text)}"


def _subject(finding: Finding) -> str:
    said = said_of(finding)
    lead = said[: len(said) - len(said.lstrip(": "))]
    return f"**{prose(finding.subject)}**{lead}{prose(said[len(lead) :])}"


def _table(of: Table) -> Iterator[str]:
    yield from table(
        [escape(column.title) for column in of.columns],
        [
            *([_cell(one, chosen=number == of.chosen) for one in row] for number, row in enumerate(of.rows)),
            *([[f"**{cell(one.text)}**" if one.text else "" for one in of.foot]] if of.foot else []),
        ],
        [column.is_number for column in of.columns],
    )


def _cell(one: Cell, *, chosen: bool) -> str:
    text = prose(one.text)
    text = f"**{text}**" if chosen and text else text
    return text + (f"<br>{prose(one.note)}" if one.note else "")


def _branch(branch: Branch, depth: int) -> Iterator[str]:
    indent = "  " * depth
    kind = f"{branch.kind} " if branch.kind else ""
    sign = _SIGNS[branch.mark]
    mark = "" if branch.mark == sign else branch.mark
    yield f"{sign} {indent}{mark:>2} {kind}{branch.name}  {branch.facts}".rstrip()
    for reason in branch.reasons:
        yield f"! {indent}     {reason}"
    if branch.is_folded and branch.edits:
        yield f"  {indent}     … {plural(len(branch.edits), 'difference')}"
    for edit in () if branch.is_folded else branch.edits[:_MOST_EDITS]:
        yield from _edit(edit, f"{indent}     ")
    if not branch.is_folded and len(branch.edits) > _MOST_EDITS:
        yield f"  {indent}     … {len(branch.edits) - _MOST_EDITS} more"
    for child in branch.children:
        yield from _branch(child, depth + 1)


def _edit(edit: Edit, indent: str) -> Iterator[str]:
    if edit.lines:
        yield f"! {indent}{edit.path}:"
        for sign, text in edit.lines:
            yield f"{sign if sign in ('+', '-') else ' '} {indent}  {text}"
        return
    before, after = edit.before[:_LONGEST_VALUE], edit.after[:_LONGEST_VALUE]
    if edit.remark or edit.mark == "?":
        yield f"! {indent}{edit.path}: {edit.remark or f'{before} → {after}'}"
        return
    if before:
        yield f"- {indent}{edit.path}: {before}"
    if after:
        yield f"+ {indent}{edit.path}: {after}"
