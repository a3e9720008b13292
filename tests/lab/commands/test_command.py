"""`fleet rehearse`: its options, what it prints and how it ends. The rehearsal itself is stood in for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import lab.commands.rehearsal as played
import lab.commands.shell as shell
from fleet.cli.main import main
from fleet.doctor.packages import FOR_REHEARSALS
from fleet.preview.record import quick_sdk
from lab.drills.catalogue import DRILLS
from lab.report.model import RehearsalReport
from tests.fleet.cli.command import ROOT, fleet
from tests.lab.report.samples import sample_report


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass
class Played:
    """What the stand-in was asked for and what it does."""

    answer: Callable[[Any], RehearsalReport]
    root: Path | None = None
    stack: str = ""
    drills: tuple[str, ...] = ()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Takes the place of the rehearsal: passes, unless the test says otherwise."""
    here = Played(answer=lambda _: passing())

    def rehearse(root: Path, stack: str, drills: Sequence[Any], *, progress: Any) -> RehearsalReport:
        here.root, here.stack, here.drills = root, stack, tuple(one.name for one in drills)
        progress.starts("the control plane")
        return here.answer(progress)

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(played, "rehearse", rehearse)
    monkeypatch.setattr(quick_sdk, "install", lambda: None)
    monkeypatch.setattr("lab.commands.rehearse.leave", leave)
    monkeypatch.delenv("PULUMI_STACK", raising=False)
    monkeypatch.delenv("FLEET_DEBUG", raising=False)
    monkeypatch.chdir(ROOT)
    return here


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["fleet", "rehearse", *arguments])
        try:
            code: Any = main()
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return run


def passing() -> RehearsalReport:
    drills = tuple(one for one in sample_report().drills if one.passed)
    assert drills
    return replace(sample_report(), drills=drills)


Run = Callable[..., Ended]


# What is asked for


@pytest.mark.parametrize(
    ("options", "drills"),
    [
        ((), [one.name for one in DRILLS]),
        (("--drill", "drain", "-d", "bring-up"), ["bring-up", "drain"]),
    ],
)
def test_options_reach_the_rehearsal(stand_in: Played, run: Run, options: tuple[str, ...], drills: list[str]) -> None:
    assert run("--stack", "spot", *options).code == 0
    assert (stand_in.root, stand_in.stack, list(stand_in.drills)) == (ROOT, "spot", drills)


@pytest.mark.parametrize(
    ("options", "commands"),
    [(("--shell",), ()), (("-c", "pulumi up", "--command", "kubectl get pods"), ("pulumi up", "kubectl get pods"))],
)
def test_a_shell_and_commands_play_no_drill_and_give_their_code(
    stand_in: Played, run: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], commands: tuple[str, ...]
) -> None:
    asked: list[Any] = []

    def open_shell(root: Path, stack: str, lines: tuple[str, ...], **_: Any) -> int:
        asked.append((root, stack, lines))
        return 7

    monkeypatch.setattr(shell, "open_shell", open_shell)
    assert run("--stack", "dev", *options).code == 7
    assert asked == [(ROOT, "dev", commands)]
    assert stand_in.drills == ()


@pytest.mark.parametrize(
    "options",
    [
        ("--shell", "--command", "true"),
        ("--shell", "--drill", "drain"),
        ("--command", "true", "--drill", "drain"),
        ("--command", "true", "--format", "json"),
        ("--shell", "--list"),
    ],
)
@pytest.mark.usefixtures("stand_in")
def test_a_shell_cannot_be_combined(run: Run, options: tuple[str, ...]) -> None:
    ended = run("--stack", "dev", *options)
    assert ended.code == 2
    assert "--shell and --command" in ended.err


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--drill", "drian"), "--drill drian"),
        (("--list", "--drill", "zzz"), "zzz"),
    ],
)
def test_wrong_input_is_told_before_anything_is_played(
    stand_in: Played, run: Run, arguments: tuple[str, ...], said: str
) -> None:
    ended = run("--stack", "dev", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert stand_in.stack == ""


# The list


def test_the_list_names_every_drill_and_plays_none(stand_in: Played, run: Run) -> None:
    assert [line.split()[0] for line in run("--list").out.splitlines()] == [one.name for one in DRILLS]
    document = json.loads(run("--list", "--format", "json").out)
    assert [(one["name"], one["title"], one["proves"]) for one in document["drills"]] == [
        (one.name, one.title, one.proves) for one in DRILLS
    ]
    assert stand_in.stack == ""


def test_the_list_needs_no_project(tmp_path: Path) -> None:
    assert fleet("rehearse", "--list", cwd=tmp_path).returncode == 0


def test_the_list_needs_no_packages_of_a_rehearsal() -> None:
    wanted = "import json, sys, lab.drills.catalogue; print(json.dumps([*sys.modules]))"
    loaded = subprocess.run([sys.executable, "-c", wanted], cwd=ROOT, capture_output=True, text=True, check=True)
    assert FOR_REHEARSALS.isdisjoint(json.loads(loaded.stdout))


# How it ends


def test_a_failed_drill_is_exit_code_1(stand_in: Played, run: Run) -> None:
    stand_in.answer = lambda _: sample_report()
    assert not sample_report().passed
    assert run("--stack", "dev").code == 1
    assert run("--stack", "dev", "--format", "json").code == 1


def test_a_stopped_rehearsal_shows_what_is_done(stand_in: Played, run: Run) -> None:
    stand_in.answer = lambda _: replace(passing(), not_played=("pause", "drain"), stop_code=130)
    ended = run("--stack", "dev")
    assert ended.code == 130
    assert "pause, drain" in " ".join(ended.out.split())
    document = json.loads(run("--stack", "dev", "--format", "json").out)
    assert (document["passed"], document["notPlayed"]) == (False, ["pause", "drain"])
    assert len(document["drills"]) == len(passing().drills)
