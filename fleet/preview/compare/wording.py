"""Formats differences for all reports."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from facts.texts import plural
from fleet.report.words import format_usd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.preview.compare.changes import (
        Changes,
        Delta,
        Operation,
        PropertyChange,
        PropertyChangeKind,
        ResourceChange,
    )
    from fleet.report.outline import Mark

MARKS: Final[Mapping[Operation, Mark]] = {"create": "+", "update": "~", "replace": "+-", "delete": "-", "same": ""}
"""Operation marks as in `pulumi preview`."""
PROPERTY_MARKS: Final[Mapping[PropertyChangeKind, Mark]] = {
    "added": "+",
    "removed": "-",
    "changed": "~",
    "may change": "?",
}
_TO_DO: Final[Mapping[Operation, str]] = {
    "create": "to create",
    "update": "to update",
    "replace": "to replace",
    "delete": "to delete",
    "same": "unchanged",
}
_CONTEXT: Final = 24
"""Characters shown around the first difference of two long texts."""
_MOST_PATHS: Final = 3
"""Maximum of properties listed as causes of a replacement."""
_LEAST_PER_CENT: Final = 0.5
_UNIT_OF_COUNT: Final = frozenset({"", "tok/s", "minutes", "min"})


def format_summary(changes: Changes) -> str:
    """`1 to create, 2 to replace, 58 unchanged`, without zeros."""
    return ", ".join(f"{count:,} {_TO_DO[operation]}" for operation, count in changes.summary.items() if count)


def format_fate(change: ResourceChange) -> str:
    """Details of an operation beyond its mark."""
    parts: list[str] = []
    if change.operation == "replace":
        order = "replaced (deleted first)" if change.delete_first else "replaced (created first)"
        parts.append(f"may be {order}" if change.maybe else order)
        if change.guessed:
            parts.append("a guess")
    if change.moved:
        former = change.old_urn.rpartition("::")[2]
        renamed = "" if former == change.urn.rpartition("::")[2] else f"was {former}"
        kept = "" if change.operation == "replace" else "kept by its alias"
        parts.append(", ".join(part for part in (renamed, kept) if part) or "known by its alias")
    return " · ".join(parts)


def format_reasons(change: ResourceChange) -> Iterator[str]:
    """Causes of a replacement with their evidence, one line per source."""
    alike: dict[tuple[str, str, bool], list[str]] = {}
    for reason in change.reasons:
        alike.setdefault((reason.certainty, reason.source, reason.maybe), []).append(reason.path)
    for (certainty, source, maybe), paths in alike.items():
        named = [path for path in paths if path]
        shown = ", ".join(named[:_MOST_PATHS])
        if len(named) > _MOST_PATHS:
            shown += f" and {len(named) - _MOST_PATHS} more"
        verdict = "would be replaced" if maybe else "replaced"
        why = f" if {shown} differ{'s' if len(named) == 1 else ''}" if maybe else f" because of {shown}"
        yield f"{verdict}{why if shown else ''} ({certainty}: {source})"


# Numbers --------------------------------------------------------------------------------------------------------------


def _side(delta: Delta, value: float | None, *, at_least: bool) -> str:
    """One side of a number, marked as a lower bound if it is one."""
    if value is None:
        return "not published" if delta.unit == "tok/s" else "unknown"
    return f"at least {_amount(delta.unit, value)}" if at_least else _amount(delta.unit, value)


def format_before(delta: Delta) -> str:
    """The number before the change."""
    return _side(delta, delta.before, at_least=delta.before_at_least)


def format_after(delta: Delta) -> str:
    """The number after it."""
    return _side(delta, delta.after, at_least=delta.after_at_least)


def format_difference(delta: Delta, *, per_cent: bool = True) -> str:
    """After minus before with its sign, and in per cent; empty where one of them is unknown."""
    if not delta.difference:
        return "" if delta.difference is None else "same"
    sign = "+" if delta.difference > 0 else "-"
    text = sign + _amount(delta.unit, abs(delta.difference))
    share = abs(delta.difference) / abs(delta.before) * 100 if delta.before else 0.0
    return f"{text} ({sign}{share:,.0f} %)" if per_cent and share >= _LEAST_PER_CENT else text


def _amount(unit: str, value: float) -> str:
    if unit.startswith("USD"):
        return format_usd(value) if value >= 0 else f"-{format_usd(-value)}"
    number = f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    return number if unit in _UNIT_OF_COUNT or not unit else f"{number} {unit}"


# Values ---------------------------------------------------------------------------------------------------------------


def format_value(value: Any) -> str:
    """A value on one line: plain if unambiguous, else as JSON."""
    if isinstance(value, str):
        plain = bool(value) and value == value.strip() and "\n" not in value and '"' not in value
        return value if plain else json.dumps(value, ensure_ascii=False)
    if value is None:
        return "not set"
    return json.dumps(value, ensure_ascii=False, default=str)


def format_sides(change: PropertyChange, width: int) -> tuple[str, str]:
    """Before and after on one line each, cut to `width` characters around the first difference."""
    before, after = format_value(change.before), format_value(change.after)
    if change.kind == "added":
        return "", _cut(after, 0, width)
    if change.kind == "removed":
        return _cut(before, 0, width), ""
    differing = (at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    start = next(differing, min(len(before), len(after)))
    return _cut(before, start, width), _cut(after, start, width)


def _cut(text: str, parting: int, width: int) -> str:
    if len(text) <= width:
        return text
    start = max(0, min(parting - _CONTEXT, len(text) - width + 2))
    end = start + width - (2 if start else 1)
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def is_text(change: PropertyChange) -> bool:
    """Whether both sides are multi-line texts, such as scripts, to show line by line."""
    sides = (change.before, change.after)
    return all(isinstance(side, str) for side in sides) and any("\n" in side.strip() for side in sides)


def lines_that_differ(change: PropertyChange, most: int) -> Iterator[tuple[str, str]]:
    """Mark and text of up to `most` differing lines, with one line of context."""
    diff = difflib.unified_diff(str(change.before).splitlines(), str(change.after).splitlines(), n=1, lineterm="")
    hunks = list(diff)[3:]  # without the two file names and the first place
    lines = [" …" if line.startswith("@@") else line for line in hunks]
    for line in lines[:most]:
        yield line[0], line[1:]
    if len(lines) > most:
        yield "…", plural(len(lines) - most, "more line")


def properties_of(change: ResourceChange) -> Sequence[PropertyChange]:
    """All differences of a resource, options last."""
    return (*change.properties, *change.options)


def forcing(change: ResourceChange) -> frozenset[str]:
    """The properties that force a replacement."""
    return frozenset(reason.path for reason in change.reasons)
