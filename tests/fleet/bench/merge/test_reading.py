"""The two processes that read results: gone with the one that wanted them, silent when it is interrupted, and missed when they die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children
from pathlib import Path

import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.merge.reading import reader
from tests.fleet.bench.merge.folders import RUN, sound

ASKING = """
import sys
from pathlib import Path
from fleet.bench.merge import reading
reading.SECOND_PROCESS_PAYS = 0
files = [(Path(path), path) for path in sys.argv[1:]]
try:
    with reading.reader([path for path, _ in files]) as read:
        results = read(files)
        print("asked", flush=True)
        if sys.stdin.readline() == "all\\n":
            print(len(list(results)), flush=True)
        sys.stdin.readline()
except KeyboardInterrupt:
    sys.exit(130)
"""


def _results() -> list[Path]:
    return sorted((sound() / RUN).glob("client-???.json"))


@contextmanager
def _asking() -> Iterator[subprocess.Popen[str]]:
    """A process of a session of its own that has just asked two others to read."""
    command = [sys.executable, "-c", ASKING, *map(str, _results())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            assert process.stdout.readline() == "asked\n"
            yield process
        finally:
            if _session(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


def _session(leader: int) -> list[str]:
    """Processes of a session that still run, without its leader."""
    found = subprocess.run(
        ["ps", "-o", "pid=,stat=", "--sid", str(leader)], capture_output=True, text=True, check=False
    )
    rows = [line.split() for line in found.stdout.splitlines()]
    return [pid for pid, state in rows if not state.startswith("Z") and pid != str(leader)]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_readers_end_with_the_process_that_asked_them(how: signal.Signals) -> None:
    with _asking() as process:
        process.stdin.write("all\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        assert process.stdout.readline() == "4\n"  # type: ignore[union-attr]
        assert len(_session(process.pid)) >= 2
        process.send_signal(how)
        until = time.monotonic() + 10
        while _session(process.pid) and time.monotonic() < until:
            time.sleep(0.05)
        assert _session(process.pid) == []


@pytest.mark.slow
def test_an_interrupt_is_the_asking_process_own() -> None:
    """A terminal's Ctrl-C goes to every process, also to those that are still starting; each would print where it was."""
    with _asking() as process:
        time.sleep(0.2)  # they import what they need
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert (process.returncode, said) == (130, "")


# In Python 3.11 the executor's own thread fails where it gives its error to an answer that is already cancelled.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_readers_that_something_else_ended_are_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.bench.merge.reading.SECOND_PROCESS_PAYS", 0)
    paths, before = _results(), {child.pid for child in active_children()}

    def killed() -> None:
        with reader(paths) as read:
            results = read([(path, path.name) for path in paths] * 50)
            for child in active_children():
                if child.pid is not None and child.pid not in before:
                    os.kill(child.pid, signal.SIGKILL)
            list(results)

    with pytest.raises(BenchmarkError, match="memory ran out"):
        killed()
