"""`pulumi destroy`: everything goes in reverse order of its dependencies, and what is left is accounted for."""

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
from fleet.rehearse.apply.graph import needs_by_urn, turned_round, walk
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
"""How long a disk may take to go after its claim. Assumed: Google deletes one within a minute; then the rest is trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DestroyReport:
    """What one `pulumi destroy` did."""

    state: AppliedState
    """What it still has; empty when all went well."""
    deleted: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why, by URN. A protected resource is one of them, and then nothing was touched."""
    skipped: tuple[str, ...] = ()
    retained: tuple[Retained, ...] = ()
    """What outlives the stack because the program says so."""
    unexpected: tuple[str, ...] = ()
    """What is left and should not be: `Kind/name`."""
    findings: tuple[Finding, ...] = ()
    started_seconds: Mapping[str, float] = field(default_factory=dict)
    finished_seconds: Mapping[str, float] = field(default_factory=dict)


class Destruction:
    """One destroy on its way."""

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
        """Delete everything, unless something is protected: then refuse, as the engine does, before anything goes."""
        protected = [urn for urn, one in self._left.items() if one.resource.protect]
        if protected:
            self.failed.update({urn: protected_text("delete", urn) for urn in protected})
            return
        self._deletion.going = frozenset(self._left)
        order = turned_round(needs_by_urn([one.resource for one in self._left.values()]))
        walked = walk(order, lambda urn: not self._stop.is_set() and self._delete(urn), parallel, self._stop.set)
        self.skipped = walked.skipped

    def state(self) -> AppliedState:
        """What is still applied."""
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
    """What Google's provider refuses to delete by a field of the resource itself. Raises OperationError."""
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
    """What is left: on purpose, and not. Waits for disks that are on their way out."""
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
        return (), (f"the cluster could not be asked what is left: {error}",)
    return tuple(sorted(retained, key=lambda one: (one.kind, one.name))), tuple(sorted(unexpected))


def findings_of(unexpected: tuple[str, ...]) -> tuple[Finding, ...]:
    """One finding for each thing that should not be left."""
    return tuple(
        Finding(
            severity="error",
            subject=name,
            message=f"{name} is left after pulumi destroy, and nothing in the program says that it stays",
            fix="let the program delete it, or declare that it is retained",
        )
        for name in unexpected
    )
