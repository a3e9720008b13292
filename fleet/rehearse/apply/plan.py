"""The operations of an apply, decided by the offline comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.preview.compare.compare import compare
from fleet.preview.compare.replacement import deletes_first
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, STACK_TYPE, RecordedResource, Recording
from fleet.preview.record.values import Value, transform
from fleet.rehearse.apply.manifests import is_object
from fleet.rehearse.apply.options import annotated
from fleet.rehearse.apply.state import AppliedResource, AppliedState, Operation
from fleet.rehearse.results import RehearsalError


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One resource's operation."""

    resource: RecordedResource
    operation: Operation
    old: AppliedResource | None = None
    delete_first: bool = False
    """A replace that deletes the old object first."""
    protected: bool = False
    """A replace or delete that the engine refuses."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every step of one apply."""

    steps: Mapping[str, Step]
    """By URN, dependencies first."""
    deletes: Mapping[str, AppliedResource]
    """Resources that the program no longer has, by URN."""


def is_work(resource: RecordedResource) -> bool:
    """Whether a provider handles it: not components, the stack and stack references."""
    return resource.custom and resource.type not in (STACK_TYPE, STACK_REFERENCE_TYPE)


def plan(recording: Recording, previous: AppliedState | None, live_is_ready: Callable[[AppliedResource], bool]) -> Plan:
    """Compare the program with the applied state.

    `live_is_ready` is called for Jobs with replaceUnready. Raises RehearsalError for what the engine refuses.
    """
    if previous is None:
        return Plan(steps={one.urn: Step(resource=one, operation="create") for one in recording.resources}, deletes={})
    changes = compare(previous.as_recording(), recording)
    conflicts = [danger.message for danger in changes.dangers if danger.id == "alias-conflict"]
    if conflicts:
        raise RehearsalError("; ".join(conflicts))
    fates = {one.urn: one for one in changes.resources if one.operation != "delete"}
    steps: dict[str, Step] = {}
    for resource in recording.resources:
        fate = fates.get(resource.urn)
        old = previous.resources.get(fate.old_urn or resource.urn) if fate else None
        if fate is None or old is None:
            known = resource.urn in previous.resources
            steps[resource.urn] = Step(resource=resource, operation="same" if known and not fate else "create", old=old)
            continue
        step = Step(
            resource=resource,
            operation=fate.operation,
            old=old,
            delete_first=fate.delete_first,
            protected=fate.protected,
            why=", ".join(reason.path or reason.source for reason in fate.reasons)
            or ", ".join(change.path for change in fate.properties),
        )
        steps[resource.urn] = _unready_replaced(step, live_is_ready)
    redrawn = dict(_redrawn(steps))
    for urn, step in steps.items():
        texts = {text for need in property_needs(step.resource) for text in redrawn.get(need, ())}
        if step.operation == "same" and any(mentions(step.resource.inputs, text) for text in texts):
            steps[urn] = Step(resource=step.resource, operation="update", old=step.old, why="a referenced name or uid")
    gone = {one.old_urn for one in changes.resources if one.operation == "delete"}
    return Plan(steps=steps, deletes={urn: one for urn, one in previous.resources.items() if urn in gone})


def _unready_replaced(step: Step, live_is_ready: Callable[[AppliedResource], bool]) -> Step:
    """Apply `pulumi.com/replaceUnready`, which the provider supports only for Jobs."""
    if (
        step.operation not in ("same", "update")
        or step.old is None
        or not step.resource.type.endswith(":Job")
        or not annotated(step.resource).replace_unready
        or live_is_ready(step.old)
    ):
        return step
    inputs: tuple[Mapping[str, Any], Mapping[str, Any]] = (step.old.resource.inputs, step.resource.inputs)
    return Step(
        resource=step.resource,
        operation="replace",
        old=step.old,
        delete_first=deletes_first(step.resource.type, *inputs, step.resource.delete_before_replace),
        protected=step.old.resource.protect,
        why="pulumi.com/replaceUnready: the Job in the cluster is not complete",
    )


def gets_new_name(step: Step) -> bool:
    """Whether a replace creates an object with another name: auto-named, and the old one still exists."""
    metadata = step.resource.inputs.get("metadata")
    named = isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str)
    return step.operation == "replace" and not step.delete_first and is_object(step.resource) and not named


def recorded_uid(resource: RecordedResource) -> str:
    """The recording's placeholder for an object's uid; empty for other resources."""
    metadata = resource.outputs.get("metadata") if is_object(resource) else None
    return str(metadata.get("uid") or "") if isinstance(metadata, Mapping) else ""


def mentions(value: Value, text: str) -> bool:
    """Whether a value contains the text."""
    found: list[bool] = []
    transform(value, lambda leaf: found.append(isinstance(leaf, str) and text in leaf))
    return any(found)


def _redrawn(steps: Mapping[str, Step]) -> Iterator[tuple[str, list[str]]]:
    """Recorded texts that change with a replacement: the uid, and an automatic name."""
    for urn, step in steps.items():
        if step.operation == "replace" and is_object(step.resource):
            name = step.resource.outputs["metadata"]["name"] if gets_new_name(step) else ""
            yield urn, [text for text in (recorded_uid(step.resource), name) if text]


def property_needs(resource: RecordedResource) -> set[str]:
    """URNs on which a resource's properties depend."""
    return {urn for urns in resource.property_dependencies.values() for urn in urns}
