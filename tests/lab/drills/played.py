"""A stage whose program can be broken for a while, and a drill played on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from lab.drills.catalogue import DRILLS
from lab.drills.drill import Proof
from lab.drills.runner import result_of
from lab.providers.base import type_of
from lab.providers.kubernetes.provider import Kubernetes
from lab.results.result import DrillBrokenOffError, DrillResult
from lab.stage.stage import Stage
from lab.stage.update_report import UpReport
from lab.stage.updates import SKIP_PREVIEW
from tests.lab.drills.mutation import Mutation


class BreakableStage(Stage):
    """Hands the engine other inputs than the program's as long as a `broken` block lasts; with a `mutation`, always."""

    mutation: Mutation | None = None
    last_report: UpReport

    def up(self, sections: Mapping[str, Any] | None = None, *, upsert: bool = False) -> UpReport:
        """As the stage's own; the report is kept."""
        self.last_report = super().up(sections, upsert=upsert)
        return self.last_report

    def _policies(self) -> tuple[str, ...]:
        return (SKIP_PREVIEW,)  # The pack would refuse most breaks before the drill sees them.

    def _start(self) -> None:
        super()._start()
        if self.mutation is not None:
            self._stack.enter_context(self.broken(self.mutation))

    @contextlib.contextmanager
    def broken(self, mutation: Mutation) -> Iterator[None]:
        """Whatever the program registers in the block is broken like this."""
        whole, hits = Kubernetes.check, list[str]()

        def check(provider: Kubernetes, request: Any) -> tuple[dict[str, Any], list[str]]:
            inputs, wrong = whole(provider, request)
            if mutation(type_of(request.urn).rpartition(":")[2], request.urn.rpartition("::")[2], inputs):
                hits.append(request.urn)
            return inputs, wrong

        Kubernetes.check = check  # type: ignore[method-assign]
        try:
            yield
            assert hits, "the stack has nothing to break like this"
        finally:
            Kubernetes.check = whole  # type: ignore[method-assign]


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
