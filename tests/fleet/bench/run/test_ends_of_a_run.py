"""What a user is told when a run ends early, after its Job has: by Ctrl-C, by a signal, without a network."""

from __future__ import annotations

import importlib
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleet.bench.run.launch import Launched
from fleet.bench.run.wanted import Changes, settings_for
from fleet.cli.exits import CommandError
from fleet.clients import stack_outputs
from fleet.clients.errors import LiveError
from fleet.jobs.session import cluster_of
from fleet.jobs.watching import Ended, patiently
from tests.fleet.bench.run.laptop import BENCHMARK
from tests.fleet.cli.command import SMALL_STACK, project
from tests.fleet.clients.programs import in_front, stand_in
from tests.fleet.clients.test_stack_outputs import outputs

# The package has functions of the same names.
run: Any = importlib.import_module("fleet.cli.bench.run")
LAUNCHED = Launched("b", "0" * 36, "vllm", "try", " --out here")
LATER = "fleet bench fetch b-00000000 --stack try --out here"


def stopping(error: BaseException) -> Callable[..., Any]:
    def stop(*_: Any) -> None:
        raise error

    return stop


@pytest.fixture
def finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The end of a run whose Job has ended well."""
    monkeypatch.setattr(run, "bring", lambda *_: None)
    settings = settings_for(project(tmp_path, **{"try": SMALL_STACK + BENCHMARK}), "try", Changes())
    over: Any = Ended("", (), None)
    nothing: Any = None
    finish: Callable[..., int] = run._finish
    return lambda: finish(nothing, nothing, settings, nothing, LAUNCHED, over, (), tmp_path / "out", 0.0)


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_stop_after_the_end_says_where_the_results_are(
    finish: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stop: BaseException,
    code: int,
) -> None:
    monkeypatch.setattr(run, "shown_report", stopping(stop))
    assert finish() == code
    said = capsys.readouterr().out
    assert "The results are in" in said
    assert "fleet bench report" in said
    assert "continues" not in said
    monkeypatch.setattr(run, "bring", stopping(stop))
    assert finish() == code
    assert LATER in capsys.readouterr().out


def test_a_fetch_without_a_network_is_tried_for_a_while_and_then_left_for_later(
    finish: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = [LiveError("no route", reason="unreachable"), LiveError("Run `gcloud auth login`", reason="credentials")]

    def bring(*_: Any) -> None:
        if troubles:
            raise troubles.pop()

    monkeypatch.setattr(run, "bring", bring)
    monkeypatch.setattr(run, "shown_report", lambda _: 0)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert finish() == 0
    assert troubles == []
    monkeypatch.setattr(run, "bring", stopping(LiveError("this user may not", reason="forbidden")))
    with pytest.raises(CommandError) as caught:
        finish()
    assert str(caught.value).startswith("this user may not")
    assert LATER in str(caught.value)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    asked: list[float] = []

    def action() -> None:
        asked.append(now[0])
        raise LiveError("no route", reason="unreachable")

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr("fleet.jobs.watching.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with pytest.raises(LiveError, match="no route"):
        patiently(action, lambda _: None, poll_seconds=4.0, patience_seconds=10.0)
    assert asked == [1000.0, 1004.0, 1008.0, 1012.0]


def test_with_a_kubeconfig_of_ones_own_a_signal_is_an_exception_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(project(tmp_path, **{"try": SMALL_STACK + BENCHMARK}), "try", Changes())
    stand_in(tmp_path / "bin", "kubectl", "print('{}')")
    monkeypatch.setenv("PATH", in_front(tmp_path / "bin"))
    given = stack_outputs.accept("try", outputs(), "here")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    # First, so that a default handler does not end the tests themselves.
    with cluster_of(given, settings, tmp_path / "own.yaml", None):
        assert signal.SIG_DFL not in (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP))
    with pytest.raises(SystemExit) as caught, cluster_of(given, settings, tmp_path / "own.yaml", None):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
