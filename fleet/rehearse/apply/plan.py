"""What one apply has to do: each resource's operation, decided as the offline comparison decides it."""

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
    """What becomes of one resource."""

    resource: RecordedResource
    operation: Operation
    old: AppliedResource | None = None
    delete_first: bool = False
    """A replace that removes the old object before it makes the new one."""
    protected: bool = False
    """A replace or delete that the engine refuses."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every step of one apply."""

    steps: Mapping[str, Step]
    """By URN, dependencies first."""
    deletes: Mapping[str, AppliedResource]
    """What the program no longer has, by URN."""


def is_work(resource: RecordedResource) -> bool:
    """Whether the provider has something to do for it: not for components, the stack, and references to stacks."""
    return resource.custom and resource.type not in (STACK_TYPE, STACK_REFERENCE_TYPE)


def plan(recording: Recording, previous: AppliedState | None, live_is_ready: Callable[[AppliedResource], bool]) -> Plan:
    """Compare the program with what is applied.

    `live_is_ready` is asked for jobs that are to be replaced when they are not. Raises RehearsalError for what the engine
    refuses as a whole.
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
        told = {text for need in property_needs(step.resource) for text in redrawn.get(need, ())}
        if step.operation == "same" and any(mentions(step.resource.inputs, text) for text in told):
            steps[urn] = Step(
                resource=step.resource, operation="update", old=step.old, why="a name or uid it refers to"
            )
    gone = {one.old_urn for one in changes.resources if one.operation == "delete"}
    return Plan(steps=steps, deletes={urn: one for urn, one in previous.resources.items() if urn in gone})


def _unready_replaced(step: Step, live_is_ready: Callable[[AppliedResource], bool]) -> Step:
    """`pulumi.com/replaceUnready`, which the provider honours for Jobs alone, by the state of the live Job."""
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
    """Whether a replace makes an object of another name: the program names none, and the old one still stands."""
    metadata = step.resource.inputs.get("metadata")
    named = isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str)
    return step.operation == "replace" and not step.delete_first and is_object(step.resource) and not named


def recorded_uid(resource: RecordedResource) -> str:
    """The uid that the recording stands in for an object's own, which its API server draws; empty for what is no object."""
    metadata = resource.outputs.get("metadata") if is_object(resource) else None
    return str(metadata.get("uid") or "") if isinstance(metadata, Mapping) else ""


def mentions(value: Value, text: str) -> bool:
    """Whether a text stands anywhere in a value."""
    found: list[bool] = []
    transform(value, lambda leaf: found.append(isinstance(leaf, str) and text in leaf))
    return any(found)


def _redrawn(steps: Mapping[str, Step]) -> Iterator[tuple[str, list[str]]]:
    """What a replaced object has anew, as the recording has it: always its uid, and a name that the program does not give."""
    for urn, step in steps.items():
        if step.operation == "replace" and is_object(step.resource):
            name = step.resource.outputs["metadata"]["name"] if gets_new_name(step) else ""
            yield urn, [text for text in (recorded_uid(step.resource), name) if text]


def property_needs(resource: RecordedResource) -> set[str]:
    """URNs of the resources that a resource's properties are made from."""
    return {urn for urns in resource.property_dependencies.values() for urn in urns}
