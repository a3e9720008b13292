"""Matches resources of two programs by URN and by aliases as the engine derives them.

A program registers a resource's own aliases. The engine derives those that follow from a parent's alias: its
children are matched under the parent's former URN, with the parent's former name as their prefix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fleet.preview.record.recording import Alias, RecordedResource, urn_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """Who is who."""

    old_by_new: Mapping[str, str]
    """Old URN by new URN, for resources that continue."""
    conflicts: tuple[str, ...]
    """Conflicts that the engine would refuse: two resources that claim one former identity."""


def match(resources: Iterable[RecordedResource], old_urns: Collection[str], *, stack: str, project: str) -> Matches:
    """Match every resource with the old state. `resources` are ordered parents first."""
    found: dict[str, str] = {}
    moved: dict[str, str] = {}  # for the children: new URN -> the alias that matched
    claimed: dict[str, str] = {}
    seen: set[str] = set()
    conflicts: list[str] = []
    for resource in resources:
        if resource.urn in claimed:
            conflicts.append(f"{resource.urn} is registered, and {claimed[resource.urn]} claims it by an alias")
            seen.add(resource.urn)
            continue
        for candidate in (resource.urn, *_aliases(resource, moved, stack=stack, project=project)):
            if candidate not in old_urns:
                continue
            if candidate != resource.urn:
                if candidate in seen or candidate in claimed:
                    other = claimed.get(candidate, candidate)
                    conflicts.append(f"{resource.urn} and {other} both claim to be the former {candidate}")
                    break
                claimed[candidate] = resource.urn
                moved[resource.urn] = candidate
            found[resource.urn] = candidate
            break
        seen.add(resource.urn)
    return Matches(old_by_new=found, conflicts=tuple(conflicts))


def _aliases(one: RecordedResource, moved: Mapping[str, str], *, stack: str, project: str) -> Iterator[str]:
    """Every former URN: explicit ones first, then those from a moved parent."""
    explicit = [_collapsed(alias, one, moved, stack=stack, project=project) for alias in one.aliases]
    yield from explicit
    former_parent = moved.get(one.parent)
    if former_parent is None:
        return
    for type_, name in ((one.type, one.name), *((_type_of(urn), _name_of(urn)) for urn in explicit)):
        parent_name = _name_of(one.parent)
        if name.startswith(parent_name):
            name = _name_of(former_parent) + name.removeprefix(parent_name)
        yield urn_of(stack=stack, project=project, parent=former_parent, type_=type_, name=name)


def _collapsed(alias: Alias, one: RecordedResource, moved: Mapping[str, str], *, stack: str, project: str) -> str:
    if alias.urn:
        return alias.urn
    parent = one.parent
    if alias.parent_urn:
        parent = moved.get(alias.parent_urn, alias.parent_urn)
    return urn_of(
        stack=alias.stack or stack,
        project=alias.project or project,
        parent="" if alias.no_parent else parent,
        type_=alias.type or one.type,
        name=alias.name or one.name,
    )


def _type_of(urn: str) -> str:
    return urn.split("::")[2].rpartition("$")[2]


def _name_of(urn: str) -> str:
    return urn.split("::", 3)[3]
