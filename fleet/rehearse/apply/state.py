"""Applied state, as in the engine's state, and the report of an apply."""

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
    """Reference to an object in the cluster."""

    kind: Kind
    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedResource:
    """One resource in the state."""

    resource: RecordedResource
    objects: tuple[ObjectRef, ...] = ()
    """Its objects in the cluster: one, those of a chart, or none for Google Cloud resources and components."""
    trouble: str = ""
    """Why it was accepted but did not become ready; the next `pulumi up` waits for it again. Empty if it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedState:
    """A stack's state, complete or partial. It contains secrets: never print it."""

    project: str
    stack: str
    resources: Mapping[str, AppliedResource] = field(default_factory=dict)
    condemned: tuple[AppliedResource, ...] = ()
    """Replaced and still to be deleted, after an interrupted apply."""
    pending: frozenset[str] = frozenset()
    """URNs that a killed apply was creating. The engine keeps them and only warns."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def as_recording(self) -> Recording:
        """The state as a recording, for comparison."""
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
        """The state after `pulumi refresh --clear-pending-creates`, which does not change the cluster."""
        return replace(self, pending=frozenset())

    @property
    def objects(self) -> tuple[ObjectRef, ...]:
        """The stack's objects in the cluster."""
        return tuple(ref for one in self.resources.values() for ref in one.objects)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyEvent:
    """Progress of an apply."""

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
    """Result of one `pulumi up`."""

    state: AppliedState
    """The new state; partial after a failure."""
    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    """Changed in place, or waited for again because they were not ready after the last apply."""
    replaced: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Pulumi's error and the cluster's reason, by URN."""
    skipped: tuple[str, ...] = ()
    """Not started: the engine starts nothing after a failure."""
    started_seconds: Mapping[str, float] = field(default_factory=dict)
    """Simulated start by URN."""
    finished_seconds: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def duration_seconds(self) -> Mapping[str, float]:
        """Simulated seconds per resource, waiting included."""
        return {urn: end - self.started_seconds[urn] for urn, end in self.finished_seconds.items()}

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.created or self.updated or self.replaced or self.deleted or self.failed)
