"""Changes in a pull-request comment: effects and numbers visible, differences folded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fleet.preview.compare.wording import (
    MARKS,
    format_after,
    format_before,
    format_difference,
    format_fate,
    format_reasons,
    format_sides,
    format_summary,
    is_text,
    lines_that_differ,
    properties_of,
)
from fleet.preview.report.change_tree import change_tree
from fleet.preview.report.resource_facts import cloud_name, kind_of
from fleet.report.markdown import alert, cell, code, escape, fenced, fold, prose, table
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.preview.compare.changes import Changes, PropertyChange, ResourceChange
    from fleet.preview.report.change_tree import ChangeNode
    from fleet.preview.report.model import Report

_MOST_DANGERS: Final = 20
_MOST_HEADLINES: Final = 12
_MOST_LOSSES: Final = 30
_MOST_PROPERTIES: Final = 25
_MOST_LINES: Final = 25
_WIDTH: Final = 300
"""Characters shown of one value."""
_SIGNS: Final = {"create": "+", "update": "!", "replace": "!", "delete": "-", "same": " "}
"""First character of a line, which sets its color in a GitHub diff block."""


def headline(report: Report, changes: Changes, *, several: bool) -> Iterator[str]:
    """The blast radius, dangers first."""
    name = report.recording.stack
    head = f"#### {code(name)}" if several else f"### Preview of {code(name)}"
    yield f"{head}: {prose(changes.headline[0])}"
    # With several stacks, the dangers of all come first.
    if changes.dangers and not several:
        yield from alert("CAUTION", [f"- {prose(one.message)}" for one in changes.dangers[:_MOST_DANGERS]])
    for danger in () if several else report.dangers[:_MOST_DANGERS]:
        yield from alert("WARNING", [prose(danger)])
    if len(changes.headline) > 1:
        yield ""
        yield from (f"- {prose(line)}" for line in changes.headline[1:_MOST_HEADLINES])
    yield ""
    yield f"{format_summary(changes).capitalize()}, against {code(changes.against)}."


def numbers(changes: Changes) -> Iterator[str]:
    """Changed numbers as a table; unchanged ones as one line."""
    moving = [one for one in changes.deltas if one.changed]
    if moving:
        yield from table(
            ("", "before", "after", "difference"),
            (
                (escape(one.label), format_before(one), f"**{format_after(one)}**", format_difference(one))
                for one in moving
            ),
        )
    still = [f"{escape(one.label)} {format_after(one)}" for one in changes.deltas if not one.changed and one.after]
    if still:
        yield ""
        yield f"Unchanged: {', '.join(still)}."


def losses(report: Report, changes: Changes) -> Iterator[str]:
    """Replaced and deleted resources with the cause, not folded."""
    lost = [one for one in changes.resources if one.operation in ("replace", "delete") and one.custom]
    if not lost:
        return
    rows = ((code(MARKS[one.operation]), _name(report, one), _why(one)) for one in lost[:_MOST_LOSSES])
    yield from table(("", "resource", "why"), rows)
    if len(lost) > _MOST_LOSSES:
        yield ""
        yield f"…and {len(lost) - _MOST_LOSSES} more."


def _name(report: Report, change: ResourceChange) -> str:
    recorded = report.recording.by_urn.get(change.urn)
    return f"{escape(kind_of(change.type))} {code(cloud_name(recorded) if recorded else change.name)}"


def _why(change: ResourceChange) -> str:
    fate = format_fate(change)
    lines = [escape(fate)] if fate else []
    return "<br>".join([*lines, *map(cell, format_reasons(change))]) or "no longer in the program"


def differences(report: Report, changes: Changes) -> Iterator[str]:
    """The tree of every difference, as a diff."""
    tree = change_tree(changes, report.recording)
    lines = list(_tree(tree, 0)) if tree is not None else []
    for output in changes.outputs:
        lines += _property(output, "  output ")
    if lines:
        count = plural(len(changes.changed), "resource")
        yield from fold(f"Every difference: {count}", fenced(lines))
    for remark in changes.remarks:
        yield ""
        yield f"- {prose(remark)}"


def _tree(node: ChangeNode, depth: int) -> Iterator[str]:
    indent, first = "  " * depth, node.changes[0]
    facts = [format_fate(first), ", ".join(node.facts), f"{node.unchanged} below unchanged" if node.unchanged else ""]
    told = " · ".join(fact for fact in facts if fact)
    yield f"{_SIGNS[node.operation]} {indent}{MARKS[node.operation]:>2} {node.kind} {node.name}  {told}".rstrip()
    for reason in format_reasons(first):
        yield f"! {indent}     {reason}"
    differing = properties_of(first)
    for one in differing[:_MOST_PROPERTIES]:
        yield from _property(one, f"{indent}     ")
    if len(differing) > _MOST_PROPERTIES:
        yield f"  {indent}     … {len(differing) - _MOST_PROPERTIES} more"
    for child in node.children:
        yield from _tree(child, depth + 1)


def _property(change: PropertyChange, indent: str) -> Iterator[str]:
    if change.secret:
        yield f"! {indent}{change.path}: a secret{', which may change' if change.kind == 'may change' else ''}"
        return
    if is_text(change):
        yield f"! {indent}{change.path}:"
        for sign, text in lines_that_differ(change, _MOST_LINES):
            yield f"{sign if sign in '+-' else ' '} {indent}  {text}"
        return
    before, after = format_sides(change, _WIDTH)
    if change.kind == "may change":
        yield f"! {indent}{change.path}: {before} → {after}"
        return
    if before:
        yield f"- {indent}{change.path}: {before}"
    if after:
        yield f"+ {indent}{change.path}: {after}"
