"""Breaks a recorded stack in one place: what a drill must notice. A change that hits nothing is an error of the test."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.rehearse.apply.state import AppliedState

Mutation = Callable[[Recording], Recording]
Inputs = dict[str, Any]


def changed(kind: str, change: Callable[[Inputs], None], name: str = "") -> Mutation:
    """Every resource of this Kubernetes kind (and of this name in the program) with its inputs changed."""

    def mutate(recording: Recording) -> Recording:
        found: list[RecordedResource] = []
        hits = 0
        for one in recording.resources:
            if _is(one, kind, name):
                inputs = copy.deepcopy(dict(one.inputs))
                change(inputs)
                assert inputs != one.inputs, f"the change leaves {one.name} as it is"
                found.append(replace(one, inputs=inputs))
                hits += 1
            else:
                found.append(one)
        assert hits, f"the stack has no {kind} {name}"
        return replace(recording, resources=tuple(found))

    return mutate


def without(kind: str, name: str = "") -> Mutation:
    """The stack without the resources of this kind, and without any dependency on them."""

    def mutate(recording: Recording) -> Recording:
        gone = {one.urn for one in recording.resources if _is(one, kind, name)}
        assert gone, f"the stack has no {kind} {name}"
        kept = (_forgetting(one, gone) for one in recording.resources if one.urn not in gone)
        return replace(recording, resources=tuple(kept))

    return mutate


def retaining(state: AppliedState, kind: str) -> AppliedState:
    """What is applied, as if the program had said `retain_on_delete` of the resources of this kind."""
    resources = dict(state.resources)
    hits = [urn for urn, one in resources.items() if _is(one.resource, kind, "")]
    assert hits, f"the stack has no {kind}"
    for urn in hits:
        one = resources[urn]
        resources[urn] = replace(one, resource=replace(one.resource, retain_on_delete=True))
    return replace(state, resources=resources)


def at_once(kind: str) -> Mutation:
    """The stack whose resources of this kind wait for their namespace and their provider alone."""

    def mutate(recording: Recording) -> Recording:
        space = tuple(one.urn for one in recording.resources if _is(one, "Namespace", ""))
        assert any(_is(one, kind, "") for one in recording.resources), f"the stack has no {kind}"
        every = (replace(one, dependencies=space) if _is(one, kind, "") else one for one in recording.resources)
        return replace(recording, resources=tuple(every))

    return mutate


def both(*mutations: Mutation) -> Mutation:
    """One after the other."""

    def mutate(recording: Recording) -> Recording:
        for one in mutations:
            recording = one(recording)
        return recording

    return mutate


def _is(one: RecordedResource, kind: str, name: str) -> bool:
    return one.type.startswith("kubernetes:") and one.type.endswith(f":{kind}") and name in ("", one.name)


def _forgetting(one: RecordedResource, gone: set[str]) -> RecordedResource:
    by_property = {
        key: tuple(urn for urn in urns if urn not in gone) for key, urns in one.property_dependencies.items()
    }
    left = tuple(urn for urn in one.dependencies if urn not in gone)
    return replace(one, dependencies=left, property_dependencies=by_property)
