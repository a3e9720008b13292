"""What one apply has to do: each resource's operation, decided as the offline comparison decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.preview.compare.compare import compare
from fleet.preview.compare.replacement import deletes_first
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, STACK_TYPE, RecordedResource, Recording
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
    renamed = dict(_renamed(steps))
    for urn, step in steps.items():
        if step.operation == "same" and any(renamed.get(need) for need in _property_needs(step.resource)):
            steps[urn] = Step(resource=step.resource, operation="update", old=step.old, why="a name it refers to")
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


def _renamed(steps: Mapping[str, Step]) -> Iterator[tuple[str, bool]]:
    for urn, step in steps.items():
        yield urn, gets_new_name(step)


def _property_needs(resource: RecordedResource) -> set[str]:
    return {urn for urns in resource.property_dependencies.values() for urn in urns}
