"""Changes in the terminal report: effects, numbers, then differences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fleet.preview.compare.wording import (
    MARKS,
    PROPERTY_MARKS,
    forcing,
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
from fleet.report.terminal import Page, Part

if TYPE_CHECKING:
    from fleet.preview.compare.changes import Changes, PropertyChange, ResourceChange
    from fleet.preview.report.change_tree import ChangeNode
    from fleet.preview.report.model import Report

_MOST_PROPERTIES: Final = 16
"""Maximum of properties shown per resource; the JSON document has all."""
_MOST_LINES: Final = 12
"""Maximum of lines shown of a changed text."""
_GAPS: Final = 9
"""Gap between the columns of numbers."""
_STYLES: Final = {
    "+": "green",
    "~": "yellow",
    "+-": "bold magenta",
    "-": "bold red",
    "?": "dim",
    "": "dim",
    " ": "dim",
    "…": "dim",
}


def print_consequences(page: Page, changes: Changes) -> None:
    """Dangers, then the blast radius."""
    for danger in changes.dangers:
        page.prose(danger.message, indent=0, mark="!! ", style="bold red", mark_style="bold white on red")
    if changes.dangers:
        page.blank()
    for line in changes.headline:
        page.prose(line, indent=0, mark="· ", style="bold", mark_style="dim")


def print_numbers(page: Page, changes: Changes) -> None:
    """Before, after and difference of changed numbers; unchanged ones on one line."""
    if not changes.deltas:
        return
    moving = [one for one in changes.deltas if one.changed]
    page.title("Numbers", "before → after" if moving else "unchanged")
    for per_cent in (True, False):
        rows = [
            (one.label, format_before(one), format_after(one), format_difference(one, per_cent=per_cent))
            for one in moving
        ]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
        if fits := sum(widths) + _GAPS <= page.width:
            break
    for label, before, after, difference in rows:
        if fits:
            page.line(
                "  ",
                label.ljust(widths[0]),
                "  ",
                (before.rjust(widths[1]), "dim"),
                (" → ", "dim"),
                (after.ljust(widths[2]), "bold"),
                "  ",
                (difference.rjust(widths[3]), "cyan"),
            )
        else:
            page.prose(f"{label}: {before} → {after}" + (f", {difference}" if difference else ""))
    still = [f"{one.label} {format_after(one)}" for one in changes.deltas if not one.changed and one.after is not None]
    if still:
        page.prose(("unchanged: " if moving else "") + ", ".join(still), style="dim")


def print_changes(page: Page, report: Report, changes: Changes) -> None:
    """Tree of differences, changed outputs, counts, remarks."""
    page.title("Changes", f"against {changes.against}")
    tree = change_tree(changes, report.recording)
    if tree is None:
        page.prose("no resource changes")
    else:
        for node, prefix, below in _rows(tree):
            _print_node(page, node, prefix, below)
    if changes.outputs:
        page.line((" ~ ", _STYLES["~"]), "outputs of the stack")
    for output in changes.outputs:
        _print_property(page, output, " " * 5)
    page.blank()
    page.prose(format_summary(changes), indent=0, style="bold")
    for remark in changes.remarks:
        page.item(remark)


def _rows(node: ChangeNode, prefix: str = "", below: str = "") -> Iterator[tuple[ChangeNode, str, str]]:
    yield node, prefix, below + ("│  " if node.children else "   ")
    last = len(node.children) - 1
    for index, child in enumerate(node.children):
        branch, trunk = ("└─ ", "   ") if index == last else ("├─ ", "│  ")
        yield from _rows(child, below + branch, below + trunk)


def _print_node(page: Page, node: ChangeNode, prefix: str, below: str) -> None:
    mark = MARKS[node.operation]
    fate = format_fate(node.changes[0])
    facts = [fate] if fate else []
    if node.facts:
        facts.append((", " if len(node.changes) > 1 else " · ").join(node.facts))
    if node.unchanged:
        facts.append(f"{node.unchanged:,} below unchanged")
    parts: list[Part] = [
        (f"{mark:>2} ", _STYLES[mark]),
        (prefix, "dim"),
        (node.kind, "dim" if node.component else "cyan"),
    ]
    parts += [" ", (node.name, "bold" if node.component else "")]
    text = " · ".join(facts)
    used = 3 + len(prefix) + len(node.kind) + 1 + len(node.name)
    style = _STYLES[mark] if node.operation in ("replace", "delete") else "dim"
    if text and used + 2 + len(text) <= page.width:
        parts += ["  ", (text, style)]
        text = ""
    page.line(*parts)
    margin = "   " + below
    for line in textwrap.wrap(
        text, max(20, page.width - len(margin) - 2), break_long_words=False, break_on_hyphens=False
    ):
        page.line((margin + "  ", "dim"), (line, style))
    _print_details(page, node.changes[0], margin + "  ")


def _print_details(page: Page, change: ResourceChange, margin: str) -> None:
    for reason in format_reasons(change):
        room = max(20, page.width - len(margin) - 2)
        for index, line in enumerate(textwrap.wrap(reason, room, break_long_words=False, break_on_hyphens=False)):
            page.line((margin, "dim"), ("  " if index else "! ", "bold magenta"), (line, "magenta"))
    # Properties that force a replacement come first, so that they are never omitted.
    told = sorted(properties_of(change), key=lambda one: one.path not in forcing(change))
    for one in told[:_MOST_PROPERTIES]:
        _print_property(page, one, margin)
    if len(told) > _MOST_PROPERTIES:
        page.line((margin, "dim"), (f"… {len(told) - _MOST_PROPERTIES} more (--format json has all)", "dim"))


def _print_property(page: Page, change: PropertyChange, margin: str) -> None:
    mark = PROPERTY_MARKS[change.kind]
    head: list[Part] = [(margin, "dim"), (mark, _STYLES[mark]), " ", (change.path, "")]
    if change.secret:
        hidden = "a secret, which may change" if change.kind == "may change" else f"a secret, {change.kind}"
        page.line(*head, "  ", (hidden, "dim"))
        return
    if is_text(change):
        page.line(*head)
        for sign, text in lines_that_differ(change, _MOST_LINES):
            room = max(20, page.width - len(margin) - 6)
            page.line((margin, "dim"), "    ", (f"{sign} {text[:room]}", _STYLES.get(sign, "")))
        return
    used = len(margin) + 2 + len(change.path)
    before, after = format_sides(change, 4 * page.width)
    arrow = " → " if before and after else ""
    if used + 2 + len(before) + len(arrow) + len(after) <= page.width:
        page.line(*head, "  ", (before, _before_style(change)), (arrow, "dim"), (after, _after_style(change)))
        return
    before, after = format_sides(change, max(20, page.width - len(margin) - 6))
    page.line(*head)
    for sign, text, style in (("- ", before, _before_style(change)), ("+ ", after, _after_style(change))):
        if text:
            page.line((margin, "dim"), "    ", (sign, style), (text, style))


def _before_style(change: PropertyChange) -> str:
    return "red" if change.kind in ("removed", "changed") else "dim"


def _after_style(change: PropertyChange) -> str:
    return "green" if change.kind in ("added", "changed") else "dim"
