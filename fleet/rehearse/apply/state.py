"""What is applied, as an engine's state has it, and what one apply did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fleet.preview.record.recording import RecordedResource, Recording, in_dependency_order
from fleet.rehearse.api import Kind
from fleet.rehearse.results import Finding

Operation = Literal["create", "update", "replace", "delete", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """One object in the cluster."""

    kind: Kind
    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedResource:
    """One resource as the state has it."""

    resource: RecordedResource
    objects: tuple[ObjectRef, ...] = ()
    """What it is in the cluster: one object, those of a chart, or none for Google Cloud and components."""
    trouble: str = ""
    """Why it was accepted but never became ready; the next `pulumi up` waits for it again. Empty when it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedState:
    """A stack as it is applied, whole or in part. It holds what the program recorded: never print it."""

    project: str
    stack: str
    resources: Mapping[str, AppliedResource] = field(default_factory=dict)
    condemned: tuple[AppliedResource, ...] = ()
    """Replaced already and still to be deleted: an apply broke off in between."""
    pending: frozenset[str] = frozenset()
    """URNs of what a killed apply was creating. The engine keeps them, warns of them, and does nothing about them."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def as_recording(self) -> Recording:
        """The state as the old side of a comparison."""
        return Recording(
            project=self.project,
            stack=self.stack,
            mode="known",
            resources=in_dependency_order(one.resource for one in self.resources.values()),
            outputs=self.outputs,
            diagnostics=(),
            secrets=self.secrets,
        )

    def without_pending_creates(self) -> AppliedState:
        """After `pulumi refresh --clear-pending-creates`, which changes nothing in the cluster."""
        return replace(self, pending=frozenset())

    @property
    def objects(self) -> tuple[ObjectRef, ...]:
        """Every object that the stack has in the cluster."""
        return tuple(ref for one in self.resources.values() for ref in one.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyEvent:
    """Something to show a person while an apply goes on."""

    urn: str
    name: str
    """`Kind/name`."""
    operation: Operation
    phase: Literal["started", "waiting", "done", "failed"]
    text: str = ""
    """What it waits for, or why it failed."""
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyReport:
    """What one `pulumi up` did."""

    state: AppliedState
    """The stack as it is now; partial when something failed. The next `up` goes on from it."""
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    """Changed in place, or waited for again because the last apply never saw them ready."""
    replaced: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why, in Pulumi's words and with what the cluster says, by URN."""
    skipped: tuple[str, ...] = ()
    """Not begun: the engine starts nothing new after a failure."""
    started_seconds: Mapping[str, float] = field(default_factory=dict)
    """Simulated time at which work on a resource began, by URN."""
    finished_seconds: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def duration_seconds(self) -> Mapping[str, float]:
        """Simulated seconds that each resource took, waiting included."""
        return {urn: end - self.started_seconds[urn] for urn, end in self.finished_seconds.items()}

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.created or self.updated or self.replaced or self.deleted or self.failed)
