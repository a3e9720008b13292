"""The order of drills, and when a stage is shared, set right, ended and made anew; on a stage that only keeps a log."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from facts.finding import Finding
from fleet.preview.record.recording import ProgramError
from lab.control_plane.api import ApiRefusedError, ApiUnreachableError
from lab.drills import runner as runner_module
from lab.drills.drill import Drill, Proof
from lab.drills.runner import Runner
from lab.results.result import DrillBrokenOffError, DrillResult, RehearsalError
from lab.stage.update_report import UpReport

FOUND = Finding(id="operation-failed", subject="Job/download", found="it waits for ever", write="bind the claim")
Log = list[str]


@dataclass
class Script:
    """What the stages of a test do; one log for all of them."""

    log: Log = field(default_factory=list)
    bring_up_fails: list[str | Exception] = field(default_factory=list)
    """What each bring-up breaks off with, in order; nothing is left when the list is used up."""
    restore_fails: list[str] = field(default_factory=list)
    dead: str = ""
    """Why the control plane is dead."""
    stages: int = 0


def fake_stage(script: Script) -> type:
    class FakeStage:
        def __init__(self, _opened: Any, _around: Any) -> None:
            script.stages += 1
            self.number = script.stages
            self.api = SimpleNamespace(version=lambda: "v1.36.3")
            self.control_plane = SimpleNamespace(require_running=self.require_running)
            self.updates = SimpleNamespace(pulumi="the engine")
            self.history = SimpleNamespace(first_report=UpReport())

        def __enter__(self) -> Any:
            script.log.append(f"start {self.number}")
            return self

        def __exit__(self, *_: object) -> None:
            script.log.append(f"end {self.number}")

        def require_running(self) -> None:
            if script.dead:
                raise RehearsalError(script.dead)

        def bring_up(self) -> None:
            script.log.append("bring up")
            if script.bring_up_fails:
                self.history.first_report = UpReport(findings=(FOUND,))
                reason = script.bring_up_fails.pop(0)
                raise reason if isinstance(reason, Exception) else DrillBrokenOffError(reason)

        def restore(self) -> None:
            script.log.append("set right")
            if script.restore_fails:
                raise DrillBrokenOffError(script.restore_fails.pop(0))

    return FakeStage


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script()
    monkeypatch.setattr(runner_module, "started", fake_stage(script))
    return script


def runner(script: Script, **told: Any) -> Runner:
    opened: Any = SimpleNamespace(settings="the settings")
    around: Any = SimpleNamespace(progress=lambda _: None)
    assert script.stages == 0
    return Runner(opened, around, **told)


def drill(script: Script, name: str, play: Callable[[Any, Proof], None] = lambda *_: None, **given: Any) -> Drill:
    def logged(stage: Any, proof: Proof) -> None:
        script.log.append(name)
        play(stage, proof)
        proof.check("it held", True, "seen")

    return Drill(name=name, title=name.title(), proves=f"{name} holds", play=logged, **given)


def breaks_off(reason: str | Exception) -> Callable[[Any, Proof], None]:
    def play(_: Any, __: Proof) -> None:
        raise reason if isinstance(reason, Exception) else DrillBrokenOffError(reason)

    return play


def by_name(results: tuple[DrillResult, ...]) -> dict[str, DrillResult]:
    return {result.name: result for result in results}


EMPTY: dict[str, Any] = {"start": "empty"}
SPENDS: dict[str, Any] = {"spends_stage": True}
SKIPPED: dict[str, Any] = {"skip": lambda settings: f"not with {settings}"}


@pytest.mark.parametrize(
    ("drills", "restore_fails", "log"),
    [
        ({"a": {}, "b": {}, "c": {}}, [], "start 1, bring up, a, set right, b, set right, c, end 1"),
        (
            {"destroy": SPENDS, "own": EMPTY, "a": {}},
            [],
            "start 1, bring up, a, set right, destroy, end 1, start 2, own, end 2",
        ),
        (
            {"destroy": SPENDS, "again": SPENDS},
            [],
            "start 1, bring up, destroy, end 1, start 2, bring up, again, end 2",
        ),
        ({"scale": EMPTY, "other": EMPTY}, [], "start 1, scale, end 1, start 2, other, end 2"),
        ({"a": SKIPPED}, [], ""),
        ({"a": {}, "b": SKIPPED}, [], "start 1, bring up, a, end 1"),
        # A stage that cannot be set right is no fault of the drill before.
        ({"a": {}, "b": {}}, ["no"], "start 1, bring up, a, set right, end 1, start 2, bring up, b, end 2"),
    ],
    ids=["shared", "spent last", "spent twice", "from nothing", "skipped", "last", "replaced"],
)
def test_a_stage_is_shared_set_right_in_between_and_made_anew(
    script: Script, drills: dict[str, dict[str, Any]], restore_fails: list[str], log: str
) -> None:
    script.restore_fails = restore_fails
    results = runner(script).play([drill(script, name, **given) for name, given in drills.items()])
    assert ", ".join(script.log) == log
    assert all(result.passed for result in results)
    assert {result.name: result.skipped for result in results} == {
        name: "not with the settings" if given is SKIPPED else "" for name, given in drills.items()
    }


def test_a_stack_that_never_comes_up_is_tried_once_and_told_by_each_drill_with_its_findings_by_the_first(
    script: Script,
) -> None:
    script.bring_up_fails = [ApiRefusedError(403, "Forbidden", "no quota")]
    drills = [drill(script, "a"), drill(script, "b"), drill(script, "own", start="empty")]
    found = by_name(runner(script).play(drills))
    assert script.log == ["start 1", "bring up", "end 1", "start 2", "own", "end 2"]
    assert found["a"].gave_up == found["b"].gave_up != ""
    assert [found[name].passed for name in ("a", "b", "own")] == [False, False, True]
    assert [found[name].findings for name in ("a", "b")] == [(FOUND,), ()]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApiRefusedError(429, "TooManyRequests", "Cannot evict pod"), "the API server refuses: Cannot evict pod"),
        (ApiRefusedError(500, "InternalError", ""), "the API server refuses: InternalError"),
        (ApiUnreachableError("connection refused"), "the API server does not answer: connection refused"),
        (ProgramError("the program fails at 4 replicas"), "the program fails at 4 replicas"),
    ],
)
@pytest.mark.parametrize("start", ["running", "empty"])
def test_what_goes_wrong_under_a_drill_is_its_own_failure(
    script: Script, error: Exception, said: str, start: str
) -> None:
    found = by_name(runner(script).play([drill(script, "a", breaks_off(error), start=start), drill(script, "b")]))
    assert found["a"].gave_up == said
    assert found["b"].passed
    assert script.stages == 2


def test_a_control_plane_that_died_ends_the_rehearsal_with_the_reason(script: Script) -> None:
    script.dead = "etcd ended by itself (exit code 2)"
    with pytest.raises(RehearsalError, match="etcd ended by itself"):
        runner(script).play([drill(script, "a", breaks_off(ApiUnreachableError("refused"))), drill(script, "b")])
    assert script.log == ["start 1", "bring up", "a", "end 1"]


@pytest.mark.parametrize("start", ["running", "empty"])
def test_a_defect_ends_the_stage(script: Script, start: Any) -> None:
    with pytest.raises(ValueError, match="a defect"):
        runner(script).play([drill(script, "a", breaks_off(ValueError("a defect")), start=start)])
    assert script.log[-1] == "end 1"


def test_sigterm_between_two_stages_is_a_stop_too(script: Script) -> None:
    begun: Log = []
    played = runner(
        script,
        on_start=lambda one: begun.append(one.name),
        on_result=lambda _: signal.raise_signal(signal.SIGTERM),
    )
    assert len(played.play([drill(script, "a", start="empty"), drill(script, "b", start="empty")])) == 1
    assert begun == ["a"]
    assert isinstance(played.stopped, SystemExit)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_drill_that_could_show_nothing_is_skipped_and_one_that_could_show_something_is_not(script: Script) -> None:
    def empty(_: Any, proof: Proof) -> None:
        proof.check("the others go on", False, "0 of 1", empty="the stack runs 1 replica")

    nothing = Drill(name="a", title="A", proves="it holds", play=empty)
    something = drill(script, "b", empty)
    first, second = runner(script).play([nothing, something])
    assert first.skipped == "the stack runs 1 replica"
    assert (second.skipped, second.passed) == ("", True)
    assert [one.severity for one in second.checks] == ["note", "passed"]
