"""A program under its guard: how it ends, and that it never outlives the process that asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.control_plane.process import Process, last_lines
from lab.results.result import RehearsalError

ROOT = Path(__file__).parents[3]
SHELL = "/bin/sh"
GROUPS = pytest.mark.parametrize(
    "apart",
    [
        "",
        pytest.param("setsid ", marks=pytest.mark.skipif(sys.platform != "linux", reason="orphans are found on Linux")),
    ],
    ids=["same group", "a group of its own"],
)
PARENT = """
import sys, time
from pathlib import Path
from lab.control_plane.process import Process
folder = Path(sys.argv[1])
Process("p", ["/bin/sh", "-c", "sleep 600 & echo $! > grandchild; echo $$ > child; wait"], folder=folder, log=folder / "log",
        orphaned_folder=folder)
while not (folder / "child").exists() or not (folder / "child").read_text():
    time.sleep(0.01)
print("up", (folder / "child").read_text().strip(), (folder / "grandchild").read_text().strip(), flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def start(folder: Path, script: str) -> Process:
    return Process("program", [SHELL, "-c", script], folder=folder, log=folder / "log")


def test_output_goes_to_the_log_and_the_exit_code_is_known(tmp_path: Path) -> None:
    process = start(tmp_path, "echo out; echo err >&2; exit 3")
    assert process.wait(10) == 3
    assert (tmp_path / "log").read_text() == "out\nerr\n"
    process.stop()


def test_a_program_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process = start(tmp_path, "echo bind: address already in use; exit 1")
    process.wait(10)
    with pytest.raises(
        RehearsalError, match=r"program ended unexpectedly \(exit code 1\)[\s\S]*address already in use"
    ):
        process.require_running()
    process.stop()


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_programs_and_their_folder_are_gone_when_the_parent_is_killed(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ}
    )
    assert parent.stdout is not None
    _, *pids = parent.stdout.readline().split()
    assert all(alive(int(pid)) for pid in pids)
    parent.send_signal(number)
    parent.wait(10)
    parent.stdout.close()
    assert within(5, lambda: not any(alive(int(pid)) for pid in pids))
    assert within(5, lambda: not folder.exists())


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


def test_an_interrupt_reaches_the_program_as_ctrl_c_does(tmp_path: Path) -> None:
    process = start(tmp_path, "trap 'echo interrupted; exit 7' INT; echo up; while :; do sleep 0.05; done")
    assert within(10, lambda: (tmp_path / "log").read_text() == "up\n")
    process.interrupt()
    assert process.wait(10) == 7
    process.interrupt()  # Too late: nothing happens.
    process.stop()
    assert (tmp_path / "log").read_text() == "up\ninterrupted\n"
