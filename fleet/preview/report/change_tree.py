"""Tree of created or changed resources below their parents; unchanged ones are counted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from facts.texts import plural
from fleet.preview.compare.changes import ResourceChange
from fleet.preview.compare.wording import (
    MARKS,
    PROPERTY_MARKS,
    forcing,
    format_fate,
    format_reasons,
    format_sides,
    is_text,
    lines_that_differ,
    properties_of,
)
from fleet.preview.record.recording import STACK_REFERENCE_TYPE
from fleet.preview.record.redact import Redactor
from fleet.preview.report.resource_facts import cloud_name, facts_of, kind_of
from fleet.report.outline import Branch, Edit

if TYPE_CHECKING:
    from fleet.preview.compare.changes import Changes, PropertyChange
    from fleet.preview.record.recording import RecordedResource, Recording

_BENCHMARK: Final = "Benchmark"
_SERVER: Final = "Server"
_FOLDED: Final = frozenset({"Rules", "monitoring.AlertPolicy", "monitoring.Dashboard"})
"""Kinds whose differences follow from others, and are many."""
_MOST_LINES: Final = 12
"""Lines shown of a changed text; the JSON document has all."""
_LONGEST_VALUE: Final = 240
"""Characters shown of a value, around where it differs."""
_HASH: Final = re.compile(r"\b[0-9a-f]{6,16}\b")
GROUP_FROM: Final = 4
"""Minimum of siblings with equal changes that are grouped on one line."""
_SAY_THEMSELVES: Final = ("projects.Service", "projects.IAMMember")
"""Kinds of which an API or a role says more than the resource's name."""


def created_tree(recording: Recording) -> Branch:
    """The stack with all that a first update creates below it."""
    return _planter(recording).tree()


def folded_tree(recording: Recording, most: int) -> Branch:
    """The stack with the largest of what is directly below it, each as one line, and the number of the others."""
    return _planter(recording).folded(most)


def _planter(recording: Recording) -> _Planter:
    created = [
        ResourceChange(
            urn=one.urn,
            old_urn="",
            type=one.type,
            name=one.name,
            parent=one.parent,
            custom=one.custom,
            operation="create",
        )
        for one in recording.resources
        if one.type != STACK_REFERENCE_TYPE
    ]
    return _Planter(created, recording)


def change_tree(changes: Changes, recording: Recording) -> Branch | None:
    """The stack with all changes below it; None without changes."""
    listed = [resource for resource in changes.resources if resource.type != STACK_REFERENCE_TYPE]
    if all(one.silent for one in listed):
        return None
    return _Planter(listed, recording).tree()


class _Planter:
    def __init__(self, changes: Sequence[ResourceChange], recording: Recording) -> None:
        self._recorded: Mapping[str, RecordedResource] = recording.by_urn
        self._redactor = Redactor(recording.plaintexts)
        known = {change.urn for change in changes}
        # A deleted resource has its old parent, which may continue under another URN.
        moved = {change.old_urn: change.urn for change in changes if change.moved}
        self._tops: list[ResourceChange] = []
        self._below: dict[str, list[ResourceChange]] = {}
        for change in changes:
            parent = change.parent if change.parent in known else moved.get(change.parent, "")
            if parent and parent != change.urn:
                self._below.setdefault(parent, []).append(change)
            else:
                self._tops.append(change)
        for siblings in self._below.values():
            siblings.sort(key=self._place)

    def tree(self) -> Branch:
        top = next((one for one in self._tops if one.operation != "delete"), self._tops[0])
        strays = [one for one in self._tops if one is not top]
        self._below.setdefault(top.urn, []).extend(strays)
        return self._node(top)

    def folded(self, most: int) -> Branch:
        (top,) = self._tops
        below = self._below.get(top.urn, [])
        # The server holds few resources, and they are what the stack is for.
        largest = sorted(below, key=lambda one: (kind_of(one.type) == _SERVER, self._size(one)), reverse=True)[:most]
        lines = [self._line([one], (), 0, False) for one in below if one in largest]
        rest = len(below) - len(lines)
        return self._line([top], (*lines, *([Branch(name=f"… {rest} more", mark="+")] if rest else [])), 0, False)

    def _place(self, change: ResourceChange) -> tuple[bool, str, int, str]:
        """In program order, deletes last."""
        recorded = self._recorded.get(change.urn)
        file, _, line = recorded.source_position.rpartition(":") if recorded else ("", "", "")
        return recorded is None, file, int(line) if line.isdigit() else 0, change.urn

    def _node(self, change: ResourceChange, of_benchmark: bool = False) -> Branch:
        below = self._below.get(change.urn, [])
        telling = [one for one in below if not self._is_silent(one)]
        unchanged = sum(map(self._size, below)) - sum(map(self._size, telling))
        of_benchmark = of_benchmark or kind_of(change.type) == _BENCHMARK
        return self._line([change], tuple(self._grouped(telling, of_benchmark)), unchanged, of_benchmark)

    def _is_silent(self, change: ResourceChange) -> bool:
        return change.silent and all(map(self._is_silent, self._below.get(change.urn, ())))

    def _size(self, change: ResourceChange) -> int:
        return 1 + sum(map(self._size, self._below.get(change.urn, ())))

    def _grouped(self, siblings: Sequence[ResourceChange], of_benchmark: bool) -> list[Branch]:
        alike: dict[str, list[ResourceChange]] = {}
        for sibling in siblings:
            alike.setdefault(self._likeness(sibling), []).append(sibling)
        nodes = []
        for sibling in siblings:
            kin = alike[self._likeness(sibling)]
            if len(kin) < GROUP_FROM:
                nodes.append(self._node(sibling, of_benchmark))
            elif sibling is kin[0]:
                nodes.append(self._line(kin, (), 0, of_benchmark))
        return nodes

    def _likeness(self, change: ResourceChange) -> str:
        """Grouping key: equal for resources with equal reports; unique for a resource with children."""
        if change.urn in self._below or change.moved:
            return change.urn
        return repr((change.type, change.operation, change.properties, change.options, change.reasons))

    def _told(
        self, changes: Sequence[ResourceChange], recorded: Sequence[RecordedResource | None], names: Sequence[str]
    ) -> Sequence[str]:
        if kind_of(changes[0].type) not in _SAY_THEMSELVES:
            return names
        return [
            ", ".join(facts_of(one)) if one is not None else name for one, name in zip(recorded, names, strict=True)
        ]

    def _line(
        self, changes: Sequence[ResourceChange], children: tuple[Branch, ...], unchanged: int, of_benchmark: bool
    ) -> Branch:
        first = changes[0]
        recorded = [self._recorded.get(change.urn) for change in changes]
        names = [
            cloud_name(resource) if resource is not None else change.name
            for change, resource in zip(changes, recorded, strict=True)
        ]
        facts: Sequence[str] = [", ".join(sorted(dict.fromkeys(self._told(changes, recorded, names))))]
        name = f"× {len(changes)}"
        if len(changes) == 1:
            name = names[0]
            facts = facts_of(recorded[0]) if recorded[0] is not None and first.operation == "create" else ()
            if not first.custom and first.operation == "create" and self._size(first) > 1:
                facts = [plural(self._size(first) - 1, "resource")]
        told = (format_fate(first), *facts, f"{unchanged} below unchanged" if unchanged else "")
        kind = kind_of(first.type)
        # What forces a replacement comes first, so that a long list never leaves it out.
        edits = sorted(properties_of(first), key=lambda one: one.path not in forcing(first))
        return Branch(
            kind=kind,
            name=self._redactor.text(name),
            mark=MARKS[first.operation],
            facts=self._redactor.text(" · ".join(filter(None, told))),
            reasons=tuple(format_reasons(first)),
            edits=tuple(map(edit_of, edits)),
            children=children,
            is_folded=of_benchmark or kind in _FOLDED,
        )


def edit_of(change: PropertyChange) -> Edit:
    """One difference for a report."""
    mark = PROPERTY_MARKS[change.kind]
    if change.secret:
        hidden = "a secret, which may change" if change.kind == "may change" else f"a secret, {change.kind}"
        return Edit(path=change.path, mark=mark, remark=hidden)
    if is_text(change):
        return Edit(path=change.path, mark=mark, lines=tuple(lines_that_differ(change, _MOST_LINES)))
    before, after = format_sides(change, _LONGEST_VALUE)
    if _is_hash_in_a_name(change):
        return Edit(path=change.path, mark=mark, remark="another hash")
    return Edit(path=change.path, mark=mark, before=before, after=after)


def _is_hash_in_a_name(change: PropertyChange) -> bool:
    """Whether a name differs in nothing but a hash of the object's contents, which are told themselves."""
    sides = (change.before, change.after)
    if change.kind != "changed" or not change.path.endswith(("name", "Name")):
        return False
    return len({_HASH.sub("#", side) if isinstance(side, str) else side for side in sides}) == 1
