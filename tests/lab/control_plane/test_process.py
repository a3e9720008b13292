"""A program under its guard: how it ends, and that it never outlives the process that asked for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lab.control_plane.process import Process, last_lines
from lab.results.result import RehearsalError
from tests.support.waiting import alive, within

SHELL = "/bin/sh"
GROUPS = pytest.mark.parametrize(
    "apart",
    [
        "",
        pytest.param("setsid ", marks=pytest.mark.skipif(sys.platform != "linux", reason="orphans are found on Linux")),
    ],
    ids=["same group", "a group of its own"],
)


def start(folder: Path, script: str) -> Process:
    return Process("program", [SHELL, "-c", script], folder=folder, log=folder / "log")


def test_a_program_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    process = Process("ghost", [tmp_path / "ghost"], folder=tmp_path, log=tmp_path / "log")
    assert process.wait(10) == 127
    with pytest.raises(RehearsalError, match=r".*ghost cannot be started: .*No such file"):
        process.require_running()
    process.stop()


@GROUPS
def test_stopping_kills_a_program_that_ignores_signals_and_what_it_started(tmp_path: Path, apart: str) -> None:
    process = start(
        tmp_path, f"trap '' TERM INT HUP; {apart}sleep 600 & echo $! > grandchild; echo $$ > child; wait; sleep 600"
    )
    assert within(10, lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "")
    pids = [int((tmp_path / name).read_text()) for name in ("child", "grandchild")]
    process.stop()
    assert within(5, lambda: not any(map(alive, pids)))
    process.require_running()  # stopped on purpose: nothing to report
    process.stop()


@GROUPS
def test_what_a_finished_program_left_running_is_ended_too(tmp_path: Path, apart: str) -> None:
    process = start(tmp_path, f"{apart}sleep 600 & echo $! > grandchild")
    assert process.wait(10) == 0
    assert within(5, lambda: not alive(int((tmp_path / "grandchild").read_text())))
    process.stop()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")
def test_a_program_does_not_outlive_its_guard(tmp_path: Path) -> None:
    process = start(tmp_path, "echo $$ > child; exec sleep 600")
    assert within(10, lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "")
    process._guard.kill()
    assert within(5, lambda: not alive(int((tmp_path / "child").read_text())))
    process.stop()


def test_an_interrupt_from_the_terminal_does_not_reach_the_program(tmp_path: Path) -> None:
    process = start(tmp_path, "echo $$ > child; exec sleep 600")
    assert within(10, lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() != "")
    assert os.getsid(process._guard.pid) != os.getsid(0)  # a terminal's Ctrl-C goes to one session
    process.stop()


def test_last_lines_are_few_and_short(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{number} {'x' * 1000}\n" for number in range(500)))
    lines = last_lines(log, 3).splitlines()
    assert [line.split()[0] for line in lines] == ["497", "498", "499"]
    assert max(map(len, lines)) <= 402
    assert last_lines(tmp_path / "none") == "  (nothing)"
