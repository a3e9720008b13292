"""One `pulumi up`: executes the plan's steps and updates the state."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.preview.record.synthesis_kubernetes import RELEASE_TYPE
from fleet.preview.record.values import Value, transform
from fleet.rehearse.api import Manifest
from fleet.rehearse.apply.deletion import Deletion
from fleet.rehearse.apply.manifests import Manifests, field_manager, is_object, is_release, kind_and_name
from fleet.rehearse.apply.operations import OperationError, Operations, ref_of
from fleet.rehearse.apply.options import custom_timeout_seconds, options_of
from fleet.rehearse.apply.plan import Plan, Step, gets_new_name, is_work, mentions, property_needs, recorded_uid
from fleet.rehearse.apply.readiness import rule_for
from fleet.rehearse.apply.releases import Releases
from fleet.rehearse.apply.state import AppliedResource, AppliedState, ApplyEvent, ObjectRef
from fleet.rehearse.apply.waiter import Outcome
from fleet.rehearse.apply.warnings import warning_findings
from fleet.rehearse.clock import Clock
from fleet.rehearse.results import Finding, RehearsalError
from fleet.rehearse.timeline import Mood, Timeline

_DONE: Final = {
    "create": "created",
    "update": "updated",
    "replace": "replaced",
    "delete": "deleted",
    "same": "unchanged",
}


class Run:
    """The steps of one apply. Thread-safe."""

    def __init__(
        self,
        *,
        plan: Plan,
        recording: Recording,
        previous: AppliedState | None,
        operations: Operations,
        releases: Releases,
        deletion: Deletion,
        clock: Clock,
        timeline: Timeline,
        killed: threading.Event,
        on_progress: Callable[[ApplyEvent], None],
    ) -> None:
        """Once `killed` is set, the state no longer changes."""
        self._plan, self._operations, self._releases, self._deletion = plan, operations, releases, deletion
        self._manifests = Manifests(recording)
        self._clock, self._timeline, self._killed, self._on_progress = clock, timeline, killed, on_progress
        self._lock = threading.Lock()
        self._resources = dict(previous.resources) if previous else {}
        self._condemned = list(previous.condemned) if previous else []
        self._pending = previous.pending if previous else frozenset()
        self._creating: set[str] = set()
        """Creates in progress."""
        self._new_names: dict[str, tuple[str, str]] = {}
        self.done: dict[str, list[str]] = {"create": [], "update": [], "replace": [], "delete": [], "same": []}
        self.failed: dict[str, str] = {}
        self.outcomes: dict[str, tuple[Outcome, ObjectRef]] = {}
        """Result of the wait and its object, for accepted objects that did not become ready."""
        self.fixes: dict[str, str] = {}
        """Fixes of failures, by URN."""
        self.unreachable: set[str] = set()
        """URNs that failed because the API server did not answer."""
        self.started_seconds: dict[str, float] = {}
        self.finished_seconds: dict[str, float] = {}
        self.findings: list[Finding] = []
        self._total = sum(1 for step in plan.steps.values() if is_work(step.resource)) + len(plan.deletes)
        self._count = 0

    def state(self, recording: Recording) -> AppliedState:
        """The current state."""
        with self._lock:
            return AppliedState(
                project=recording.project,
                stack=recording.stack,
                resources=dict(self._resources),
                condemned=tuple(self._condemned),
                # Pending creates of an earlier run stay until a refresh clears them.
                pending=self._pending | self._creating,
                outputs=recording.outputs,
                secrets=recording.plaintexts,
            )

    @property
    def condemned(self) -> tuple[AppliedResource, ...]:
        """Replaced objects that still exist."""
        with self._lock:
            return tuple(self._condemned)

    def step(self, urn: str) -> bool:
        """Execute one resource's step; returns whether it succeeded."""
        step = self._plan.steps[urn]
        began = self._clock.now_seconds()
        self.started_seconds[urn] = began
        again = step.operation == "same" and step.old is not None and bool(step.old.trouble)
        operation = "update" if again else step.operation
        seen = is_work(step.resource) and (is_object(step.resource) or is_release(step.resource))
        if seen and operation != "same":
            self._tell(step.resource, step, "started")
        if seen and operation in ("create", "replace"):
            with self._lock:
                self._creating.add(urn)
        try:
            applied = self._applied(step)
        except (OperationError, RehearsalError) as error:
            if not self._killed.is_set():
                self._fail(step, error, began)
            return False
        if not self._keep(step, applied):
            return False
        with self._lock:
            self.finished_seconds[urn] = self._clock.now_seconds()
            if is_work(step.resource):
                self.done[operation].append(urn)
                self._count += 1
        if seen and operation != "same":
            self._note(step.resource, _DONE[operation], "good", began)
            self._tell(step.resource, step, "done")
        return True

    def delete(self, urn: str, applied: AppliedResource, *, replaced: bool) -> bool:
        """Delete a removed resource, or the old object of a replacement; returns whether it succeeded."""
        began = self._clock.now_seconds()
        name = kind_and_name(applied.resource)
        try:
            self._deletion.delete(applied)
        except OperationError as error:
            with self._lock:
                self.failed[urn] = self._manifests.text(error.message)
                if error.unreachable:
                    self.unreachable.add(urn)
            self._timeline.note("apply", name, "delete failed", mood="bad", since_seconds=began)
            self._on_progress(self._event(applied.resource, "delete", "failed", error.message))
            return False
        if self._killed.is_set():
            return False
        with self._lock:
            if replaced:
                self._condemned.remove(applied)
            else:
                self._resources.pop(urn, None)
                self.started_seconds[urn], self.finished_seconds[urn] = began, self._clock.now_seconds()
                self._count += 1
                if is_work(applied.resource):
                    self.done["delete"].append(urn)
        if applied.objects:
            kept = applied.resource.retain_on_delete
            self._timeline.note("apply", name, "kept" if kept else "deleted", since_seconds=began)
            self._on_progress(self._event(applied.resource, "delete", "done"))
        return True

    # One step

    def _applied(self, step: Step) -> AppliedResource:
        resource = step.resource
        if step.protected:
            raise OperationError(protected_text("replace", resource.urn))
        if step.operation == "same" and step.old is not None and not step.old.trouble:
            return replace(step.old, resource=resource)
        if is_release(resource):
            return self._release(step)
        if not is_object(resource):
            # Google Cloud resources and components count as created.
            return AppliedResource(resource=resource)
        return self._object(step)

    def _object(self, step: Step) -> AppliedResource:
        resource = step.resource
        manifest = self._manifest(step)
        try:
            options = options_of(manifest)
            made = step.operation in ("create", "replace")
            timeout = custom_timeout_seconds(resource, "create" if made else "update")
        except ValueError as error:
            raise OperationError(f"{kind_and_name(resource)}: {error}") from error
        manager = field_manager(resource)
        before: Manifest | None = None
        warnings: list[str] = []
        if made:
            if step.operation == "replace" and step.old is not None:
                self._remove_old(step, step.old)
            accepted = self._operations.create(manifest, manager, warnings)
        else:
            before = self._operations.read(ref_of(manifest))
            if before is None:
                raise OperationError(f"{kind_and_name(resource)} was not found: it was deleted; run `pulumi refresh`")
            accepted = before
            if step.operation == "update":
                ignored = resource.ignore_changes
                accepted = self._operations.update(manifest, manager, before, ignored, warnings)
        self._warned(resource, warnings)
        applied = AppliedResource(resource=resource, objects=(ref_of(accepted),))
        rule = rule_for(accepted, options)
        ready = self._operations.await_ready(accepted, rule, timeout, before, lambda text: self._missing(step, text))
        if ready.late_seconds:
            self._late(step, ready.late_seconds)
        return applied

    def _remove_old(self, step: Step, old: AppliedResource) -> None:
        if step.delete_first:
            self._deletion.delete(old)
            with self._lock:
                self._resources.pop(old.resource.urn, None)
            return
        with self._lock:
            self._condemned.append(old)
            self._resources.pop(old.resource.urn, None)

    def _release(self, step: Step) -> AppliedResource:
        old = step.old.objects if step.old else ()
        if step.operation == "replace" and step.old is not None:
            self._remove_old(replace(step, delete_first=True), step.old)
            old = ()
        warnings: list[str] = []
        try:
            refs = self._releases.apply(step.resource, old, lambda text: self._missing(step, text), warnings)
        finally:
            self._warned(step.resource, warnings)
        return AppliedResource(resource=step.resource, objects=refs)

    def _manifest(self, step: Step) -> Manifest:
        manifest = self._manifests.of(step.resource)
        needs = property_needs(step.resource)
        with self._lock:
            redrawn = [self._new_names[urn] for urn in needs if urn in self._new_names]
            there = [self._resources[urn] for urn in needs if urn in self._resources]
        redrawn += [
            (uid, self._uid(one)) for one in there if (uid := recorded_uid(one.resource)) and mentions(manifest, uid)
        ]
        for recorded, live in redrawn:
            manifest = transform(manifest, functools.partial(_renamed, recorded, live))
        if gets_new_name(step) and step.old is not None:
            recorded = manifest["metadata"]["name"]
            live = _next_name(recorded, step.old.objects[0].name)
            manifest["metadata"]["name"] = live
            with self._lock:
                self._new_names[step.resource.urn] = (recorded, live)
        return manifest

    def _uid(self, applied: AppliedResource) -> str:
        """The uid assigned by the API server."""
        found = self._operations.read(applied.objects[0])
        if found is None:
            raise OperationError(f"{kind_and_name(applied.resource)}, which this refers to, was not found")
        return str(found["metadata"]["uid"])

    # Reporting

    def _keep(self, step: Step, applied: AppliedResource) -> bool:
        """Add it to the state; False after a kill."""
        with self._lock:
            if self._killed.is_set():
                return False
            self._creating.discard(step.resource.urn)
            if step.old is not None and step.old.resource.urn != step.resource.urn:
                self._resources.pop(step.old.resource.urn, None)  # Found by an alias.
            self._resources[step.resource.urn] = applied
            return True

    def _fail(self, step: Step, error: OperationError | RehearsalError, began: float) -> None:
        text = self._manifests.text(str(error))
        there: tuple[ObjectRef, ...] = error.objects if isinstance(error, OperationError) else ()
        if there:
            kept = AppliedResource(resource=step.resource, objects=there, trouble=text)
            self._keep(step, kept)
        with self._lock:
            self._creating.discard(step.resource.urn)
            self.failed[step.resource.urn] = text
            if isinstance(error, OperationError):
                self.fixes[step.resource.urn] = error.fix
                if error.unreachable:
                    self.unreachable.add(step.resource.urn)
                if error.outcome is not None and error.waited_for is not None:
                    self.outcomes[step.resource.urn] = (error.outcome, error.waited_for)
        self._note(step.resource, f"{step.operation} failed", "bad", began)
        self._on_progress(self._event(step.resource, step.operation, "failed", text))

    def _late(self, step: Step, seconds: float) -> None:
        name = kind_and_name(step.resource)
        finding = Finding(
            severity="warning",
            subject=step.resource.urn,
            message=f"{name} became ready after {seconds / 60:.0f} simulated minutes, later than Pulumi's timeout; it counts "
            "as ready here because Kubernetes' controllers run in wall time",
            fix="set a longer custom timeout, or pulumi.com/skipAwait where the provider's timeout is fixed",
        )
        with self._lock:
            self.findings.append(finding)

    def _warned(self, resource: RecordedResource, warnings: list[str]) -> None:
        found = warning_findings(
            resource.urn,
            kind_and_name(resource),
            map(self._manifests.text, warnings),
            of_chart=resource.type == RELEASE_TYPE,
        )
        with self._lock:
            self.findings.extend(found)

    def _missing(self, step: Step, text: str) -> None:
        self._tell(step.resource, step, "waiting", text)

    def _note(self, resource: RecordedResource, text: str, mood: Mood, began: float) -> None:
        self._timeline.note("apply", kind_and_name(resource), text, mood=mood, since_seconds=began)

    def _tell(self, resource: RecordedResource, step: Step, phase: str, text: str = "") -> None:
        self._on_progress(self._event(resource, step.operation, phase, text))

    def _event(self, resource: RecordedResource, operation: str, phase: str, text: str = "") -> ApplyEvent:
        return ApplyEvent(
            urn=resource.urn,
            name=kind_and_name(resource),
            operation=operation,  # type: ignore[arg-type]
            phase=phase,  # type: ignore[arg-type]
            text=text,
            done=self._count,
            total=self._total,
        )


def protected_text(verb: str, urn: str) -> str:
    """The engine's error for deleting a protected resource."""
    return (
        f'unable to {verb} resource "{urn}"\nas it is currently marked for protection. To unprotect the resource, either '
        "remove the `protect` flag from the resource in your Pulumi program and run `pulumi up`, or use the command:\n"
        f"`pulumi state unprotect '{urn}'`"
    )


def _renamed(recorded: str, live: str, leaf: Value) -> Value:
    return leaf.replace(recorded, live) if isinstance(leaf, str) else leaf


def _next_name(recorded: str, standing: str) -> str:
    """An automatic name that differs from the existing one; the provider draws eight random characters."""
    if recorded != standing:
        return recorded
    stem, _, suffix = recorded.rpartition("-")
    return f"{stem}-{(int(suffix, 16) + 1) % 16**8:08x}" if _is_hex(suffix) else f"{recorded}-1"


def _is_hex(text: str) -> bool:
    return bool(text) and all(letter in "0123456789abcdef" for letter in text)
