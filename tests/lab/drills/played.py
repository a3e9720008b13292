"""A stage whose program can be broken for a while, and a drill played on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from lab.drills.catalogue import DRILLS
from lab.drills.drill import Proof
from lab.drills.runner import result_of
from lab.engine.options import SKIP_PREVIEW
from lab.results.result import DrillBrokenOffError, DrillResult
from lab.stage import stage as stage_module
from lab.stage.stage import Stage


@contextlib.contextmanager
def without_policies() -> Iterator[None]:
    """Stages come up without the policy pack, which would refuse most breaks before the drill sees them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stage, "policies", lambda _: (SKIP_PREVIEW,))
        yield


@contextlib.contextmanager
def impatient(seconds: float = 20.0) -> Iterator[None]:
    """A drill that waits for what never comes gives up sooner than in a rehearsal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_module, "PATIENCE_SECONDS", seconds)
        yield


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


def failures(result: DrillResult) -> dict[str, str]:
    """Statement -> what was seen, for every check that did not hold."""
    return {one.subject: str(one.found) for one in result.checks if one.blocks}


def failure(result: DrillResult, about: str) -> str:
    """What was seen by the one failed check whose statement has these words."""
    (seen,) = (seen for statement, seen in failures(result).items() if about in statement)
    return seen
