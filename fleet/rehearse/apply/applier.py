"""`pulumi up` and `pulumi destroy` of a recorded stack on a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.rehearse.api import ApiRefusedError, ApiUnreachableError, ClusterApi, Manifest
from fleet.rehearse.apply.deletion import Deletion
from fleet.rehearse.apply.destroy import DestroyReport, Destruction, account, findings_of
from fleet.rehearse.apply.diagnosis import Diagnosis, diagnose
from fleet.rehearse.apply.graph import needs_by_urn, reversed_graph, walk
from fleet.rehearse.apply.operations import Operations
from fleet.rehearse.apply.plan import Plan, is_work, plan
from fleet.rehearse.apply.readiness import is_ready_now
from fleet.rehearse.apply.releases import Releases
from fleet.rehearse.apply.run import Run, protected_text
from fleet.rehearse.apply.state import AppliedResource, AppliedState, ApplyEvent, ApplyReport
from fleet.rehearse.apply.waiter import SLACK_SECONDS, Cancelled, Waiter
from fleet.rehearse.clock import Clock
from fleet.rehearse.results import Finding
from fleet.rehearse.timeline import Timeline

__all__ = ["Applier", "ApplyEvent", "ApplyReport", "DestroyReport"]

PARALLEL: Final = 16
"""Parallel operations. Assumed: the engine runs four per processor; this is a small laptop."""


def _silent(_: ApplyEvent) -> None:
    """Ignore progress."""


class Applier:
    """Applies recordings to one cluster."""

    def __init__(
        self,
        api: ClusterApi,
        clock: Clock,
        timeline: Timeline,
        *,
        chart_objects: Callable[[RecordedResource], list[Manifest]],
        on_progress: Callable[[ApplyEvent], None] = _silent,
        slack_seconds: float = SLACK_SECONDS,
    ) -> None:
        """`slack_seconds`: minimum wall time of a wait; see waiter.SLACK_SECONDS."""
        self._api, self._clock, self._timeline = api, clock, timeline
        self._chart_objects = chart_objects
        self._slack_seconds = slack_seconds
        self._stop, self._killed = threading.Event(), threading.Event()
        self.on_progress = on_progress
        """Called from many threads."""

    def cancel(self) -> None:
        """Cancel, as Ctrl-C does: nothing new starts, waits end, the state is kept."""
        self._stop.set()

    def kill(self) -> None:
        """Kill, as `kill -9` or a CI job's time limit does: the state misses operations in progress."""
        self._killed.set()
        self._stop.set()

    def up(
        self, recording: Recording, previous: AppliedState | None = None, *, upsert_existing: bool = False
    ) -> ApplyReport:
        """`pulumi up`: update the cluster from `previous` to the recorded program.

        `upsert_existing`: with the provider's `UPSERT` variable set. Raises RehearsalError for what the engine refuses as a
        whole; failed resources are in the report.
        """
        self._stop.clear()
        self._killed.clear()
        todo = plan(recording, previous, self._live_is_ready)
        with Waiter(self._api, self._clock, self._stop, self._slack_seconds) as waiter:
            run = self._run(todo, recording, previous, waiter, upsert_existing=upsert_existing)
            needs = needs_by_urn([step.resource for step in todo.steps.values()])
            walked = walk(needs, lambda urn: not self._stop.is_set() and run.step(urn), PARALLEL, self.cancel)
            if not run.failed and not self._stop.is_set():
                self._remove(run, todo.deletes)
        self._explain(run)
        self._note_google_cloud(recording)
        return ApplyReport(
            state=run.state(recording),
            created=tuple(run.done["create"]),
            updated=tuple(run.done["update"]),
            replaced=tuple(run.done["replace"]),
            deleted=tuple(run.done["delete"]),
            unchanged=tuple(run.done["same"]),
            failed=dict(run.failed),
            skipped=tuple(urn for urn in walked.skipped if is_work(todo.steps[urn].resource)),
            started_seconds=run.started_seconds,
            finished_seconds=run.finished_seconds,
            findings=tuple(run.findings),
        )

    def destroy(self, state: AppliedState) -> DestroyReport:
        """`pulumi destroy`: delete everything in the state, and list what remains."""
        self._stop.clear()
        self._killed.clear()
        with Waiter(self._api, self._clock, self._stop, self._slack_seconds) as waiter:
            operations = Operations(self._api, self._clock, waiter, self._stop, self._killed)
            destruction = Destruction(
                state=state,
                deletion=Deletion(operations, Releases(operations, self._chart_objects)),
                clock=self._clock,
                timeline=self._timeline,
                stop=self._stop,
                on_progress=self.on_progress,
            )
            destruction.run(PARALLEL)
            left = destruction.state()
            retained, unexpected = account(self._api, waiter, state, left)
        return DestroyReport(
            state=left,
            deleted=tuple(destruction.deleted),
            failed=destruction.failed,
            skipped=tuple(urn for urn in destruction.skipped if is_work(state.resources[urn].resource)),
            retained=retained,
            unexpected=unexpected,
            findings=findings_of(unexpected),
        )

    def _run(
        self,
        todo: Plan,
        recording: Recording,
        previous: AppliedState | None,
        waiter: Waiter,
        *,
        upsert_existing: bool,
    ) -> Run:
        operations = Operations(self._api, self._clock, waiter, self._stop, self._killed, upsert=upsert_existing)
        releases = Releases(operations, self._chart_objects)
        return Run(
            plan=todo,
            recording=recording,
            previous=previous,
            operations=operations,
            releases=releases,
            deletion=Deletion(operations, releases),
            clock=self._clock,
            timeline=self._timeline,
            killed=self._killed,
            on_progress=self.on_progress,
        )

    def _remove(self, run: Run, deletes: Mapping[str, AppliedResource]) -> None:
        """Delete replaced and removed resources, dependents first. Fails if one is protected, as in the engine."""
        protected = [urn for urn, one in deletes.items() if one.resource.protect]
        if protected:
            run.failed.update({urn: protected_text("delete", urn) for urn in protected})
            return
        doomed: dict[str, list[tuple[AppliedResource, bool]]] = {urn: [(one, False)] for urn, one in deletes.items()}
        for one in run.condemned:
            doomed.setdefault(one.resource.urn, []).append((one, True))
        order = reversed_graph(needs_by_urn([several[0][0].resource for several in doomed.values()]))

        def remove(urn: str) -> bool:
            return all(run.delete(urn, one, replaced=replaced) for one, replaced in doomed[urn])

        walk(order, remove, PARALLEL, self.cancel)

    def _explain(self, run: Run) -> None:
        """Diagnose failed resources in the cluster."""
        for urn, text in list(run.failed.items()):
            outcome, waited_for = run.outcomes.get(urn, (None, None))
            if urn in run.unreachable or isinstance(outcome, Cancelled):
                continue  # Not the stack's fault.
            refused = Diagnosis(text="", fix=run.fixes.get(urn, "correct what the message reports"))
            found = refused if waited_for is None else diagnose(self._api, waited_for)
            message = f"{text}: {found.text}" if found.text else text
            run.failed[urn] = message
            run.findings.append(Finding(severity="error", subject=urn, message=message, fix=found.fix))

    def _live_is_ready(self, applied: AppliedResource) -> bool:
        """Whether the live object is ready; unreadable ones count as ready, as in the provider."""
        try:
            ref = applied.objects[0]
            live = self._api.get(ref.kind, ref.name, ref.namespace)
            return live is None or is_ready_now(self._api, live)
        except (ApiRefusedError, ApiUnreachableError, IndexError):
            return True

    def _note_google_cloud(self, recording: Recording) -> None:
        count = sum(1 for one in recording.resources if one.type.startswith("gcp:"))
        if count:
            self._timeline.note("apply", "Google Cloud", f"{count} resources expected, none exists")
