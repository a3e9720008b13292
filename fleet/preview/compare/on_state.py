"""Records a program as the engine previews it on a state: resources that stay have their outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fleet.preview.compare.baseline import StateBaseline
from fleet.preview.compare.compare import operations
from fleet.preview.record.recording import Live, LiveResource, Recording
from fleet.preview.record.values import merge

_MOST_RUNS: Final = 8
"""Each run after the first adds the dependents of what the one before found to be replaced. Measured: two for this program."""


def record_on(state: StateBaseline, record: Callable[[Live], Recording]) -> Recording:
    """The program, recorded in preview mode by `record`, on a stack in this state.

    The engine decides about a resource while the program runs: one that is replaced has unknown outputs, an updated one has the
    old ones under the new inputs. Here the program runs again, until what it was told is what was found.
    """
    live = {
        resource.urn: LiveResource(id=state.ids[resource.urn], outputs=resource.outputs)
        for resource in state.resources
        if resource.custom and resource.urn in state.ids
    }
    for _ in range(_MOST_RUNS):
        recording = record(Live(resources=live, project_number=state.project_number))
        found = _found(state, recording)
        if found == live:
            break
        live = found
    return recording


def _found(state: StateBaseline, recording: Recording) -> dict[str, LiveResource]:
    """What is up and stays, with its outputs."""
    before = {resource.urn: resource for resource in state.resources}
    found: dict[str, LiveResource] = {}
    for change in operations(state, recording):
        if change.operation not in ("same", "update") or change.old_urn not in state.ids:
            continue
        outputs = before[change.old_urn].outputs
        if change.operation == "update":
            outputs = merge(dict(outputs), dict(recording.by_urn[change.urn].inputs))
        found[change.urn] = LiveResource(id=state.ids[change.old_urn], outputs=outputs)
    return found
