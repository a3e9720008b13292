"""Plays drills in order: on one shared stage, restored in between, or on separate stages."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.clients.stopping import stopped_by_exception
from fleet.preview.record.recording import ProgramError
from lab.control_plane.api import ApiRefusedError, ApiUnreachableError
from lab.drills.drill import NOT_APPLICABLE, Drill, Proof
from lab.results.result import DrillBrokenOffError, DrillResult
from lab.stage.start import started
from settings.problems import SettingsError

if TYPE_CHECKING:
    from fleet.preview.offline import OfflineStack
    from lab.engine.pulumi import Pulumi
    from lab.results.result import Retained
    from lab.stage.stage import Stage, Surroundings

LOG = logging.getLogger(__name__)


class Runner:
    """Plays one stack's drills. `results` are in playing order."""

    def __init__(
        self,
        opened: OfflineStack,
        around: Surroundings,
        *,
        on_start: Callable[[Drill], None] = lambda _: None,
        on_result: Callable[[DrillResult], None] = lambda _: None,
    ) -> None:
        self._opened, self._around = opened, around
        self._on_start, self._on_result = on_start, on_result
        self.results: list[DrillResult] = []
        self.retained: list[Retained] = []
        self.stopped: KeyboardInterrupt | SystemExit | None = None
        """Ctrl-C, SIGTERM or SIGHUP before the last drill ended."""
        self.kubernetes_version = ""
        """Reported by the API server; empty without a stage."""
        self.pulumi: Pulumi | None = None
        """The engine of the last stage; None without one."""
        self._stage: Stage | None = None
        self._shared = contextlib.ExitStack()
        """Closing it ends the shared stage."""
        self._used = False
        """Whether a drill has been played on the shared stage."""
        self._never_came_up = ""

    def play(self, drills: Sequence[Drill]) -> tuple[DrillResult, ...]:
        """Play the drills; a stopped run returns those that have ended. Raises RehearsalError if a program fails."""
        try:
            with stopped_by_exception():
                self._play_all(drills)
        except (KeyboardInterrupt, SystemExit) as stop:
            self.stopped = stop
        return tuple(self.results)

    def _play_all(self, drills: Sequence[Drill]) -> None:
        running = [drill for drill in drills if drill.start == "running"]
        running.sort(key=lambda drill: drill.spends_stage)
        try:
            for drill in running:
                self._play(drill)
        finally:
            self._end_stage()
        for drill in drills:
            if drill.start == "empty":
                self._play(drill)

    def _play(self, drill: Drill) -> None:
        skipped = drill.skip(self._opened.settings)
        if not skipped and drill.start == "running":
            self._restore()
        self._on_start(drill)
        if skipped:
            result = result_of(drill, Proof(), skipped=skipped)
        elif drill.start == "empty":
            result = self._on_separate_stage(drill)
        else:
            result = self._on_shared_stage(drill)
        self.results.append(result)
        self._on_result(result)

    def _on_separate_stage(self, drill: Drill) -> DrillResult:
        began = time.monotonic()
        with started(self._opened, self._around) as stage:
            result = self._on(stage, drill)
        return replace(result, wall_seconds=time.monotonic() - began)

    def _on_shared_stage(self, drill: Drill) -> DrillResult:
        began = time.monotonic()
        if self._never_came_up:
            return result_of(drill, Proof(), gave_up=self._never_came_up)
        stage = self._stage or self._bring_up(drill)
        if isinstance(stage, DrillResult):
            return replace(stage, wall_seconds=time.monotonic() - began)
        result = replace(self._on(stage, drill), wall_seconds=time.monotonic() - began)
        self._used = True
        if drill.spends_stage or result.gave_up:
            self._end_stage()
        return result

    def _bring_up(self, drill: Drill) -> Stage | DrillResult:
        """Start the shared stage; if the stack does not come up, return this drill's result."""
        stage = self._shared.enter_context(started(self._opened, self._around))
        self._stage, self._used = stage, False
        try:
            with _answering(stage):
                stage.bring_up()
        except DrillBrokenOffError as error:
            self._never_came_up = str(error)
            proof = Proof(findings=list(stage.history.first_report.findings))
            result = result_of(drill, proof, gave_up=str(error))
            self._end_stage()
            return result
        return stage

    def _restore(self) -> None:
        """Restore the stack after a drill; if that fails, the next drill gets a new stage."""
        if self._stage is None or not self._used:
            return
        self._around.progress("restoring the stack")
        try:
            with _answering(self._stage):
                self._stage.restore()
        except DrillBrokenOffError as error:
            LOG.info("%s; starting a new stage", error)
            self._end_stage()

    def _end_stage(self) -> None:
        stage, self._stage = self._stage, None
        if stage is not None:
            self._shared.close()

    def _on(self, stage: Stage, drill: Drill) -> DrillResult:
        proof, gave_up = Proof(), ""
        self.kubernetes_version = self.kubernetes_version or stage.api.version()
        self.pulumi = stage.updates.pulumi
        try:
            with _answering(stage):
                drill.play(stage, proof)
        except (DrillBrokenOffError, SettingsError, ProgramError) as error:
            gave_up = str(error)
            if drill.start == "empty":
                proof.findings.extend(
                    finding for finding in stage.history.first_report.findings if finding not in proof.findings
                )
        self.retained.extend(proof.retained)
        return result_of(drill, proof, gave_up=gave_up)


@contextlib.contextmanager
def _answering(stage: Stage) -> Iterator[None]:
    """Turn errors of the API server into DrillBrokenOffError; raise RehearsalError if a program has died."""
    try:
        yield
    except ApiRefusedError as refusal:
        raise DrillBrokenOffError(f"the API server refuses: {refusal.message or refusal.reason}") from refusal
    except ApiUnreachableError as error:
        stage.control_plane.require_running()
        raise DrillBrokenOffError(f"the API server does not answer: {error}") from error


def result_of(drill: Drill, proof: Proof, *, gave_up: str = "", skipped: str = "") -> DrillResult:
    """Result from a proof. A drill whose checks could not fail counts as skipped."""
    if not gave_up and proof.checks and all(check.severity == "note" for check in proof.checks):
        skipped = str(proof.checks[0].found).removeprefix(NOT_APPLICABLE)
    return DrillResult(
        name=drill.name,
        title=drill.title,
        proves=drill.proves,
        checks=tuple(replace(check, id=drill.name) for check in proof.checks),
        figures=tuple(proof.figures),
        findings=tuple(proof.findings),
        gave_up=gave_up,
        skipped=skipped,
    )
