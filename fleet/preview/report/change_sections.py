"""Sections about what a change does: its effects, its numbers, and every difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.preview.compare.engine_words import engine_words
from fleet.preview.compare.wording import format_after, format_before, format_difference, format_summary
from fleet.preview.report.change_tree import change_tree, edit_of
from fleet.report.outline import Box, Branch, Element, Items, Prose, Section, Tree, some
from fleet.report.table import Cell, Table, numbers, texts

if TYPE_CHECKING:
    from fleet.preview.compare.changes import Changes
    from fleet.preview.report.model import Report


def effects(changes: Changes, *, dangers_are_told: bool = False) -> Iterator[Element]:
    """What changes in the engine's words, dangers, then restarts, minutes, price and rate."""
    if words := engine_words(changes.resources):
        yield Prose(words, "strong")
    if changes.dangers and not dangers_are_told:
        yield Box(body=tuple(Prose(danger.message) for danger in changes.dangers))
    yield Items(changes.headline)


def number_section(report: Report, changes: Changes) -> Section | None:
    """Changed numbers as a table; unchanged ones on one line."""
    moving = [one for one in changes.deltas if one.changed]
    still = [f"{one.label} {format_after(one)}" for one in changes.deltas if not one.changed and one.after is not None]
    table = Table(
        id=f"numbers-{report.recording.stack}",
        caption="Numbers before and after the change",
        columns=(*texts(""), *numbers("before", "after", "difference")),
        rows=tuple(
            (Cell(one.label), Cell(format_before(one)), Cell(format_after(one)), Cell(format_difference(one)))
            for one in moving
        ),
    )
    body = some(table if moving else None, Prose(f"unchanged: {', '.join(still)}", "soft") if still else None)
    return Section(title="Numbers", body=body, rank=1) if changes.deltas else None


def change_sections(report: Report, changes: Changes) -> Iterator[Section]:
    """The resources that change; where something can be unfolded, also every difference in full."""
    tree = change_tree(changes, report.recording)
    top = Branch(name="outputs of the stack", mark="~", edits=tuple(map(edit_of, changes.outputs)))
    body = some(
        Prose("no resource changes") if tree is None else Tree(tree),
        Tree(top) if changes.outputs else None,
        Prose(format_summary(changes), "strong"),
        Items(changes.remarks, "soft") if changes.remarks else None,
    )
    yield Section(title="Changes", remark=f"against {changes.against}", body=body, rank=1)
    if tree is not None and _has_folds(tree):
        # A page unfolds each resource where it stands.
        yield Section(
            title="Every difference", body=(Tree(_unfolded(tree)),), folding="page", rank=2, only=("markdown",)
        )


def _has_folds(branch: Branch) -> bool:
    return (branch.is_folded and bool(branch.edits)) or any(map(_has_folds, branch.children))


def _unfolded(branch: Branch) -> Branch:
    return replace(branch, is_folded=False, children=tuple(map(_unfolded, branch.children)))
