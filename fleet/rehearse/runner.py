"""Plays drills one after the other: the running ones on one stage that is set right in between, the others on their own."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fleet.clients.stopping import stopped_by_exception
from fleet.preview.record.recording import ProgramError
from fleet.rehearse.api import ApiRefusedError, ApiUnreachableError
from fleet.rehearse.drills.alerts import alerts_during
from fleet.rehearse.drills.drill import Drill, Proof
from fleet.rehearse.results import DrillBrokenOffError, DrillResult
from fleet.rehearse.stage import Stage, Surroundings
from fleet.rehearse.timeline import Moment
from fleet.rehearse.variants import varied
from settings.problems import SettingsError

if TYPE_CHECKING:
    from fleet.preview.offline import OfflineStack
    from fleet.rehearse.apply.inventory import Retained
    from fleet.rehearse.clock import Clock

LOG = logging.getLogger(__name__)


class Runner:
    """One stack's drills. `results` has them in the order they were played."""

    def __init__(
        self,
        opened: OfflineStack,
        around: Surroundings,
        *,
        on_start: Callable[[Drill], None] = lambda _: None,
        on_clock: Callable[[Clock | None], None] = lambda _: None,
        on_result: Callable[[DrillResult], None] = lambda _: None,
    ) -> None:
        self._opened, self._around = opened, around
        self._on_start, self._on_clock, self._on_result = on_start, on_clock, on_result
        self.results: list[DrillResult] = []
        self.retained: list[Retained] = []
        self.stopped: KeyboardInterrupt | SystemExit | None = None
        """Ctrl-C, or SIGTERM or SIGHUP, which came before the last drill had ended."""
        self.kubernetes_version = ""
        """As the API server said it; empty where no stage was needed."""
        self._stage: Stage | None = None
        self._used = False
        """Whether a drill has been played on the running stage since it was brought up."""
        self._never_came_up = ""

    def play(self, drills: Sequence[Drill]) -> tuple[DrillResult, ...]:
        """Play them all; of a run that is stopped, what had ended by then. Raises RehearsalError where the machine is at fault."""
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
            self._set_right()
        self._on_start(drill)
        if skipped:
            result = result_of(drill, Proof(), skipped=skipped)
        elif drill.start == "empty":
            result = self._on_stage_of_its_own(drill)
        else:
            result = self._on_running_stage(drill)
        self.results.append(result)
        self._on_result(result)

    def _on_stage_of_its_own(self, drill: Drill) -> DrillResult:
        began = time.monotonic()
        opened = varied(self._opened, drill.sections) if drill.sections else self._opened
        with Stage(opened, self._around, speed=drill.speed) as stage:
            self._on_clock(stage.clock)
            result = self._on(stage, drill)
        self._on_clock(None)
        return replace(result, wall_seconds=time.monotonic() - began)

    def _on_running_stage(self, drill: Drill) -> DrillResult:
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
        """A stage with the stack on it, or this drill's result if that cannot be had: then no other drill gets one either."""
        stage = Stage(self._opened, self._around)
        stage.__enter__()
        self._stage, self._used = stage, False
        self._on_clock(stage.clock)
        try:
            with _answering(stage):
                stage.bring_up()
        except DrillBrokenOffError as error:
            self._never_came_up = str(error)
            proof = Proof(findings=list(stage.first_report.findings))
            result = result_of(
                drill, proof, gave_up=str(error), simulated_seconds=stage.clock.now_seconds(), stage=stage
            )
            self._end_stage()
            return result
        return stage

    def _set_right(self) -> None:
        """Undo what the drill before did to the stack; where that fails, the next drill gets a new stage."""
        if self._stage is None or not self._used:
            return
        self._around.progress("setting the stack right again")
        try:
            with _answering(self._stage):
                self._stage.restore()
        except DrillBrokenOffError as error:
            LOG.info("%s; starting anew", error)
            self._end_stage()

    def _end_stage(self) -> None:
        stage, self._stage = self._stage, None
        if stage is not None:
            self._on_clock(None)
            stage.__exit__(None, None, None)

    def _on(self, stage: Stage, drill: Drill) -> DrillResult:
        proof, gave_up = Proof(), ""
        self.kubernetes_version = self.kubernetes_version or stage.api.version()
        # The bring-up has happened by the time its drill is played; its story begins with the clock.
        since = 0.0 if drill.name == "bring-up" else stage.clock.now_seconds()
        try:
            watched = alerts_during(stage, drill, proof) if drill.start == "running" else contextlib.nullcontext()
            with _answering(stage), watched:
                drill.play(stage, proof)
        except (DrillBrokenOffError, SettingsError, ProgramError) as error:
            gave_up = str(error)
            if drill.start == "empty":
                proof.findings.extend(one for one in stage.first_report.findings if one not in proof.findings)
        self.retained.extend(proof.retained)
        return result_of(
            drill,
            proof,
            gave_up=gave_up,
            simulated_seconds=stage.clock.now_seconds() - since,
            stage=stage,
            since_seconds=since,
        )


@contextlib.contextmanager
def _answering(stage: Stage) -> Iterator[None]:
    """What the API server refuses ends a drill and not the rehearsal; a server that died is the machine's fault, in words."""
    try:
        yield
    except ApiRefusedError as refusal:
        raise DrillBrokenOffError(f"the API server refuses: {refusal.message or refusal.reason}") from refusal
    except ApiUnreachableError as error:
        stage.control_plane.require_running()
        raise DrillBrokenOffError(f"the API server does not answer: {error}") from error


def result_of(
    drill: Drill,
    proof: Proof,
    *,
    gave_up: str = "",
    skipped: str = "",
    simulated_seconds: float = 0.0,
    stage: Stage | None = None,
    since_seconds: float = 0.0,
) -> DrillResult:
    """A drill with what its proof has; with a stage also the moments since then. One that could show nothing is skipped."""
    if not gave_up and proof.checks and all(one.empty for one in proof.checks):
        skipped = proof.checks[0].empty
    return DrillResult(
        name=drill.name,
        title=drill.title,
        proves=drill.proves,
        checks=tuple(proof.checks),
        figures=(*proof.figures, *proof.requests),
        findings=tuple(proof.findings),
        moments=_moments(stage, since_seconds) if stage is not None else (),
        day=proof.day,
        simulated_seconds=simulated_seconds,
        gave_up=gave_up,
        skipped=skipped,
    )


def _moments(stage: Stage, since_seconds: float) -> tuple[Moment, ...]:
    return (*stage.timeline.moments(since_seconds), *stage.story.moments(since_seconds))
