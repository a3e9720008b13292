"""A stage whose program can be broken for a while, and a drill played on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
from lab.providers.kubernetes.provider import Kubernetes

from facts.finding import Finding
from lab.drills.catalogue import DRILLS
from lab.drills.drill import Proof
from lab.drills.runner import result_of
from lab.providers.base import type_of
from lab.results.result import DrillBrokenOffError, DrillResult
from lab.stage import stage as stage_module
from lab.stage.stage import Stage
from lab.stage.update_report import UpReport
from lab.stage.updates import SKIP_PREVIEW
from tests.lab.drills.mutation import Mutation

REPORTS: Final[list[UpReport]] = []
"""Of every `up` of the open stages."""
WHOLE_LAG_SECONDS: Final = stage_module.LAG_SECONDS
"""A rehearsal's own."""


@contextlib.contextmanager
def without_policies(lag_seconds: float) -> Iterator[None]:
    """Stages come up without the policy pack, which would refuse most breaks before the drill sees them.

    A drill that fails waits `lag_seconds` for Kubernetes' own controllers; a rehearsal waits longer.
    """
    whole = Stage.up

    def up(stage: Stage, sections: Mapping[str, Any] | None = None, *, upsert: bool = False) -> UpReport:
        REPORTS.append(whole(stage, sections, upsert=upsert))
        return REPORTS[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_module, "LAG_SECONDS", lag_seconds)
        patch.setattr(Stage, "policies", lambda _: (SKIP_PREVIEW,))
        patch.setattr(Stage, "up", up)
        yield


@contextlib.contextmanager
def patient() -> Iterator[None]:
    """Waits in the block allow for Kubernetes' own controllers as in a rehearsal: for what holds, a longer limit costs no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_module, "LAG_SECONDS", WHOLE_LAG_SECONDS)
        yield


def restore(stage: Stage) -> None:
    """Set the stage right, as a runner does between two drills."""
    with patient():
        stage.restore()


@contextlib.contextmanager
def broken(mutation: Mutation) -> Iterator[None]:
    """Whatever a program registers in the block reaches the engine changed by `mutation`."""
    whole, hits = Kubernetes.check, list[str]()

    def check(provider: Kubernetes, request: Any) -> tuple[dict[str, Any], list[str]]:
        inputs, wrong = whole(provider, request)
        if mutation(type_of(request.urn).rpartition(":")[2], request.urn.rpartition("::")[2], inputs):
            hits.append(request.urn)
        return inputs, wrong

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kubernetes, "check", check)
        yield
    assert hits, "the stack has nothing to break like this"


def played(stage: Stage, name: str) -> DrillResult:
    """One drill on the running stage, as a runner plays it."""
    drill = next(one for one in DRILLS if one.name == name)
    assert not drill.skip(stage.settings), f"{name} would be skipped"
    proof, gave_up = Proof(), ""
    try:
        drill.play(stage, proof)
    except DrillBrokenOffError as error:
        gave_up = str(error)
    return result_of(drill, proof, gave_up=gave_up)


def errors(findings: Sequence[Finding]) -> list[Finding]:
    """What failed. A warning says what came late, as on a busy machine, and was waited for."""
    return [one for one in findings if one.severity == "error"]


def failures(result: DrillResult) -> dict[str, str]:
    """Statement -> what was seen, for every check that did not hold."""
    return {one.subject: one.found for one in result.checks if one.blocks}


def failure(result: DrillResult, about: str) -> str:
    """What was seen by the one failed check whose statement has these words."""
    (seen,) = (seen for statement, seen in failures(result).items() if about in statement)
    return seen
