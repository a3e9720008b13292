"""`pulumi destroy`: delete in reverse dependency order, and list what remains."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fleet.preview.record.recording import RecordedResource
from fleet.preview.record.redact import Redactor
from fleet.preview.record.values import reveal
from fleet.rehearse.api import ApiRefusedError, ApiUnreachableError, ClusterApi, Kind
from fleet.rehearse.apply.deletion import Deletion
from fleet.rehearse.apply.graph import needs_by_urn, reversed_graph, walk
from fleet.rehearse.apply.inventory import Leftovers, Retained, declared, is_kept
from fleet.rehearse.apply.manifests import kind_and_name
from fleet.rehearse.apply.operations import OperationError
from fleet.rehearse.apply.plan import is_work
from fleet.rehearse.apply.run import protected_text
from fleet.rehearse.apply.state import AppliedState, ApplyEvent
from fleet.rehearse.apply.waiter import Waiter
from fleet.rehearse.clock import Clock
from fleet.rehearse.results import Finding
from fleet.rehearse.timeline import Timeline

RECLAIM_SECONDS: Final = 600.0
"""Time for a disk to be deleted after its claim. Assumed: Google takes less than a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyReport:
    """Result of one `pulumi destroy`."""

    state: AppliedState
    """Remaining state; empty on success."""
    deleted: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Reasons by URN. If a resource is protected, nothing is deleted."""
    skipped: tuple[str, ...] = ()
    retained: tuple[Retained, ...] = ()
    """What remains because the program retains it."""
    unexpected: tuple[str, ...] = ()
    """What remains unexpectedly: `Kind/name`."""
    findings: tuple[Finding, ...] = ()
    started_seconds: Mapping[str, float] = field(default_factory=dict)
    finished_seconds: Mapping[str, float] = field(default_factory=dict)


class Destruction:
    """A destroy in progress."""

    def __init__(
        self,
        *,
        state: AppliedState,
        deletion: Deletion,
        clock: Clock,
        timeline: Timeline,
        stop: threading.Event,
        on_progress: Callable[[ApplyEvent], None],
    ) -> None:
        self._state, self._deletion, self._stop = state, deletion, stop
        self._clock, self._timeline, self._on_progress = clock, timeline, on_progress
        self._redactor = Redactor(state.secrets)
        self._lock = threading.Lock()
        self._left = dict(state.resources)
        self._condemned = list(state.condemned)
        self._total = sum(1 for one in state.resources.values() if is_work(one.resource))
        self.deleted: list[str] = []
        self.skipped: tuple[str, ...] = ()
        self.failed: dict[str, str] = {}
        self.started_seconds: dict[str, float] = {}
        self.finished_seconds: dict[str, float] = {}

    def run(self, parallel: int) -> None:
        """Delete everything; if a resource is protected, fail first, as the engine does."""
        protected = [urn for urn, one in self._left.items() if one.resource.protect]
        if protected:
            self.failed.update({urn: protected_text("delete", urn) for urn in protected})
            return
        self._deletion.going = frozenset(self._left)
        order = reversed_graph(needs_by_urn([one.resource for one in self._left.values()]))
        walked = walk(order, lambda urn: not self._stop.is_set() and self._delete(urn), parallel, self._stop.set)
        self.skipped = walked.skipped

    def state(self) -> AppliedState:
        """The remaining state."""
        return AppliedState(
            project=self._state.project,
            stack=self._state.stack,
            resources=dict(self._left),
            condemned=tuple(self._condemned),
            outputs=self._state.outputs if self._left else {},
            secrets=self._state.secrets,
        )

    def _delete(self, urn: str) -> bool:
        applied = self._left[urn]
        name = kind_and_name(applied.resource)
        began = self._clock.now_seconds()
        self.started_seconds[urn] = began
        if applied.objects:
            self._tell(applied.resource, "started")
        try:
            refuse_at_google(applied.resource)
            for old in [one for one in self._condemned if one.resource.urn == urn]:
                self._deletion.delete(old)
                with self._lock:
                    self._condemned.remove(old)
            self._deletion.delete(applied)
        except OperationError as error:
            text = self._redactor.text(error.message)
            with self._lock:
                self.failed[urn] = text
            self._timeline.note("apply", name, "delete failed", mood="bad", since_seconds=began)
            self._tell(applied.resource, "failed", text)
            return False
        with self._lock:
            del self._left[urn]
            self.finished_seconds[urn] = self._clock.now_seconds()
            if is_work(applied.resource):
                self.deleted.append(urn)
        if applied.objects:
            kept = applied.resource.retain_on_delete
            self._timeline.note("apply", name, "kept" if kept else "deleted", since_seconds=began)
            self._tell(applied.resource, "done")
        return True

    def _tell(self, resource: RecordedResource, phase: str, text: str = "") -> None:
        self._on_progress(
            ApplyEvent(
                urn=resource.urn,
                name=kind_and_name(resource),
                operation="delete",
                phase=phase,  # type: ignore[arg-type]
                text=text,
                done=len(self.deleted),
                total=self._total,
            )
        )


def refuse_at_google(resource: RecordedResource) -> None:
    """Raise OperationError for resources that Google's provider refuses to delete, by a field of the resource."""
    inputs = reveal(dict(resource.inputs))
    if resource.type == "gcp:container/cluster:Cluster" and inputs.get("deletionProtection") is True:
        raise OperationError(
            f"Cannot destroy cluster {inputs.get('name', resource.name)} because deletion_protection is set to true. "
            "Set it to false, run `pulumi up`, then destroy."
        )
    if resource.type.startswith("gcp:") and inputs.get("deletionPolicy") == "PREVENT":
        raise OperationError(f"Cannot destroy {resource.name} because deletion_policy is PREVENT")


def account(
    api: ClusterApi, waiter: Waiter, before: AppliedState, after: AppliedState
) -> tuple[tuple[Retained, ...], tuple[str, ...]]:
    """What remains, retained and unexpected. Waits for disks that are being deleted."""
    leftovers = Leftovers(api, before)
    claims_left = any(ref.kind.kind == "PersistentVolumeClaim" for ref in after.objects)
    try:
        for volume in [] if claims_left else leftovers.volumes():
            if not is_kept(volume, "persistentVolumeReclaimPolicy"):
                waiter.until_gone(Kind.of(volume), volume["metadata"]["name"], None, RECLAIM_SECONDS)
        gone = {urn: one for urn, one in before.resources.items() if urn not in after.resources}
        retained = [*leftovers.retained(), *declared(gone.values())]
        unexpected = [] if claims_left else list(leftovers.unexpected())
        unexpected += map(str, leftovers.objects(after.resources.values()))
    except (ApiRefusedError, ApiUnreachableError) as error:
        return (), (f"the API server did not answer: {error}",)
    return tuple(sorted(retained, key=lambda one: (one.kind, one.name))), tuple(sorted(unexpected))


def findings_of(unexpected: tuple[str, ...]) -> tuple[Finding, ...]:
    """One finding per unexpected remainder."""
    return tuple(
        Finding(
            severity="error",
            subject=name,
            message=f"{name} remains after pulumi destroy, and the program does not retain it",
            fix="let the program delete it, or set retain_on_delete",
        )
        for name in unexpected
    )
