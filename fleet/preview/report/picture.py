"""A stack's picture: a Mermaid flowchart of its components, which GitHub draws."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from facts.texts import plural
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, STACK_TYPE
from fleet.preview.record.redact import Redactor
from fleet.preview.report.resource_facts import facts_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.preview.record.recording import Recording

_NOT_OF_A_LABEL: Final = re.compile(r"[^\w .,·×:/-]")
"""What could end a label: names come from whoever wrote the stack file."""
_SERVES: Final = "kubernetes:apps/v1:Deployment"
_MOST_FACTS: Final = 3


def picture(recording: Recording) -> tuple[str, ...]:
    """The flowchart's lines: an arrow leads from a component to one that needs it, directly or through no third."""
    owners = _owners(recording)
    sizes = Counter(owner for urn, owner in owners.items() if urn != owner)
    needs: dict[str, set[str]] = {owner: set() for owner in owners.values()}
    for resource in recording.resources:
        of = owners.get(resource.urn, "")
        needs.get(of, set()).update(owners[urn] for urn in resource.dependencies if owners.get(urn, of) != of)
    ids = {owner: f"n{number}" for number, owner in enumerate(needs)}
    lines = ["flowchart LR"]
    for owner, id_ in ids.items():
        lines.append(f'  {id_}["{_label(recording, owner, owners, sizes[owner])}"]')
    for owner, id_ in ids.items():
        lines += [f"  {ids[need]} --> {id_}" for need in ids if need in _direct(owner, needs)]
    return tuple(lines)


def _owners(recording: Recording) -> Mapping[str, str]:
    """The resource directly below the stack that each one belongs to."""
    found: dict[str, str] = {}
    for resource in recording.resources:  # parents come before children
        if resource.type in (STACK_TYPE, STACK_REFERENCE_TYPE):
            continue
        found[resource.urn] = found.get(resource.parent, resource.urn)
    return found


def _direct(owner: str, needs: Mapping[str, set[str]]) -> set[str]:
    """What it needs and no other of its needs needs."""
    return needs[owner] - {far for near in needs[owner] for far in _all(near, needs, {owner})}


def _all(owner: str, needs: Mapping[str, set[str]], seen: set[str]) -> Iterator[str]:
    for need in needs[owner] - seen:
        seen.add(need)
        yield need
        yield from _all(need, needs, seen)


def _label(recording: Recording, owner: str, owners: Mapping[str, str], size: int) -> str:
    resource = recording.by_urn[owner]
    servers = [one for one in recording.resources if owners.get(one.urn) == owner and one.type == _SERVES]
    facts = [fact for one in servers[:1] for fact in facts_of(one)[:_MOST_FACTS]]
    about = " · ".join(facts) or (plural(size, "resource") if size else "")
    redactor = Redactor(recording.plaintexts)
    lines = (redactor.text(line) for line in (f"{kind_of(resource.type)} {resource.name}", about))
    return "<br/>".join(_NOT_OF_A_LABEL.sub(" ", line) for line in lines if line)
