"""Tree of changed resources below their parents; unchanged ones are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.preview.record.recording import STACK_REFERENCE_TYPE
from fleet.preview.record.redact import Redactor
from fleet.preview.report.resource_facts import cloud_name, facts_of, kind_of

if TYPE_CHECKING:
    from fleet.preview.compare.changes import Changes, Operation, ResourceChange
    from fleet.preview.record.recording import RecordedResource, Recording

GROUP_FROM = 4
"""Minimum of siblings with equal changes that are grouped on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeNode:
    """One line of the tree, and the lines below it."""

    kind: str
    name: str
    operation: Operation
    changes: tuple[ResourceChange, ...]
    """One resource, or a group with equal changes."""
    facts: tuple[str, ...]
    component: bool
    unchanged: int
    """Unchanged children without a line."""
    children: tuple[ChangeNode, ...]


def change_tree(changes: Changes, recording: Recording) -> ChangeNode | None:
    """The stack with all changes below it; None without changes."""
    listed = [one for one in changes.resources if one.type != STACK_REFERENCE_TYPE]
    if all(one.silent for one in listed):
        return None
    return _Planter(listed, recording).tree()


class _Planter:
    def __init__(self, changes: Sequence[ResourceChange], recording: Recording) -> None:
        self._recorded: Mapping[str, RecordedResource] = recording.by_urn
        self._redactor = Redactor(recording.plaintexts)
        known = {one.urn for one in changes}
        # A deleted resource has its old parent, which may continue under another URN.
        moved = {one.old_urn: one.urn for one in changes if one.moved}
        self._tops: list[ResourceChange] = []
        self._below: dict[str, list[ResourceChange]] = {}
        for one in changes:
            parent = one.parent if one.parent in known else moved.get(one.parent, "")
            if parent and parent != one.urn:
                self._below.setdefault(parent, []).append(one)
            else:
                self._tops.append(one)
        for siblings in self._below.values():
            siblings.sort(key=self._place)

    def tree(self) -> ChangeNode:
        top = next((one for one in self._tops if one.operation != "delete"), self._tops[0])
        strays = [one for one in self._tops if one is not top]
        self._below.setdefault(top.urn, []).extend(strays)
        return self._node(top)

    def _place(self, change: ResourceChange) -> tuple[bool, str, int, str]:
        """In program order, deletes last."""
        recorded = self._recorded.get(change.urn)
        file, _, line = recorded.source_position.rpartition(":") if recorded else ("", "", "")
        return recorded is None, file, int(line) if line.isdigit() else 0, change.urn

    def _node(self, change: ResourceChange) -> ChangeNode:
        below = self._below.get(change.urn, [])
        telling = [one for one in below if not self._is_silent(one)]
        return self._line(
            [change], tuple(self._grouped(telling)), sum(map(self._size, below)) - sum(map(self._size, telling))
        )

    def _is_silent(self, change: ResourceChange) -> bool:
        return change.silent and all(map(self._is_silent, self._below.get(change.urn, ())))

    def _size(self, change: ResourceChange) -> int:
        return 1 + sum(map(self._size, self._below.get(change.urn, ())))

    def _grouped(self, siblings: Sequence[ResourceChange]) -> list[ChangeNode]:
        alike: dict[str, list[ResourceChange]] = {}
        for one in siblings:
            alike.setdefault(self._likeness(one), []).append(one)
        nodes = []
        for one in siblings:
            kin = alike[self._likeness(one)]
            if len(kin) < GROUP_FROM:
                nodes.append(self._node(one))
            elif one is kin[0]:
                nodes.append(self._line(kin, (), 0))
        return nodes

    def _likeness(self, change: ResourceChange) -> str:
        """Grouping key: equal for resources with equal reports; unique for a resource with children."""
        if change.urn in self._below or change.moved:
            return change.urn
        return repr((change.type, change.operation, change.properties, change.options, change.reasons))

    def _line(self, changes: Sequence[ResourceChange], children: tuple[ChangeNode, ...], unchanged: int) -> ChangeNode:
        first = changes[0]
        recorded = [self._recorded.get(one.urn) for one in changes]
        names = [
            cloud_name(resource) if resource is not None else one.name
            for one, resource in zip(changes, recorded, strict=True)
        ]
        facts: tuple[str, ...] = tuple(sorted(names))
        name = f"× {len(changes)}"
        if len(changes) == 1:
            name = names[0]
            facts = facts_of(recorded[0]) if recorded[0] is not None and first.operation == "create" else ()
        return ChangeNode(
            kind=kind_of(first.type),
            name=self._redactor.text(name),
            operation=first.operation,
            changes=tuple(changes),
            facts=tuple(self._redactor.text(fact) for fact in facts),
            component=not first.custom,
            unchanged=unchanged,
            children=children,
        )
