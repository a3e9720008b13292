"""A stage whose program can be broken for a while, and a drill played on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.preview.record.recording import Recording
from fleet.rehearse.apply.state import ApplyReport
from fleet.rehearse.drills.catalogue import DRILLS
from fleet.rehearse.drills.drill import Proof
from fleet.rehearse.results import DrillBrokenOffError, DrillResult
from fleet.rehearse.runner import result_of
from fleet.rehearse.stage import Stage
from tests.fleet.rehearse.drills.mutation import Mutation


class BreakableStage(Stage):
    """Records the program, and breaks the recording as long as a `broken` block lasts."""

    mutation: Mutation | None = None
    last_report: ApplyReport

    def record(self, sections: Mapping[str, Any] | None = None) -> Recording:
        """The program, broken if it is to be."""
        recording = super().record(sections)
        return recording if self.mutation is None else self.mutation(recording)

    def up(self, recording: Recording | None = None, *, upsert_existing: bool = False) -> ApplyReport:
        """As the stage's own; the report is kept."""
        self.last_report = super().up(recording, upsert_existing=upsert_existing)
        return self.last_report

    @contextlib.contextmanager
    def broken(self, mutation: Mutation) -> Iterator[None]:
        """Whatever is recorded in the block is broken like this."""
        self.mutation, self._base = mutation, None
        try:
            yield
        finally:
            self.mutation = self._base = None


def played(stage: Stage, name: str) -> DrillResult:
    """One drill on the running stage, as a runner plays it."""
    drill = next(one for one in DRILLS if one.name == name)
    assert not drill.skip(stage.settings), f"{name} would be skipped"
    proof, gave_up, began = Proof(), "", stage.clock.now_seconds()
    try:
        drill.play(stage, proof)
    except DrillBrokenOffError as error:
        gave_up = str(error)
    return result_of(drill, proof, gave_up=gave_up, stage=stage, since_seconds=began)


def failures(result: DrillResult) -> dict[str, str]:
    """Statement -> what was seen, for every check that did not hold."""
    return {one.statement: one.seen for one in result.checks if not one.held}


def failure(result: DrillResult, about: str) -> str:
    """What was seen by the one failed check whose statement has these words."""
    (seen,) = (seen for statement, seen in failures(result).items() if about in statement)
    return seen
