"""`fleet rehearse` as processes: two side by side; one of them is interrupted in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.control_plane.build import ETCD, KUBERNETES, KUBERNETES_PROVIDER, KWOK, PULUMI
from tests.fleet.cli.command import ROOT

pytestmark = pytest.mark.slow
END_SECONDS = 15.0
"""Wall time that an interrupted rehearsal may take to end. Measured: one to two seconds on a busy machine."""
LONG_SECONDS = 400.0
"""Wall time of a whole rehearsal of one drill at most."""
MIDDLE = ": create, "
"""Said in the middle of `pulumi up`, of each resource."""


class Rehearsal:
    """`fleet rehearse` in a process, with a folder for temporary files of its own."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        temporary.mkdir()
        self.temporary = temporary
        program = "import sys; from fleet.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "rehearse", "--stack", "dev", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def until(self, words: str) -> None:
        """Read on until it says that."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if words in line:
                return
        pytest.fail(f"it ended without saying {words}: {self.process.communicate()[1]}")

    def interrupted(self, number: signal.Signals) -> tuple[int, float, str, str]:
        """Exit code after the signal, wall seconds until then, and what went to stdout and stderr."""
        began = time.monotonic()
        self.process.send_signal(number)
        out, said = self.process.communicate(timeout=END_SECONDS * 2)
        return self.process.returncode, time.monotonic() - began, out, said

    def leftovers(self) -> list[str]:
        """Files it left, and command lines of processes that still work in its folder."""
        found = [path.name for path in self.temporary.iterdir()]
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.temporary) in line:
                found.append(line)
        return found


@contextmanager
def rehearsal(temporary: Path, *arguments: str) -> Iterator[Rehearsal]:
    one = Rehearsal(temporary, *arguments)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


@pytest.mark.usefixtures("binaries")
def test_of_two_side_by_side_one_is_interrupted_and_the_other_does_not_notice(tmp_path: Path) -> None:
    arguments = ("--drill", "bring-up", "--drill", "second-up", "--format", "json")
    with (
        rehearsal(tmp_path / "whole", *arguments) as whole,
        rehearsal(tmp_path / "cut", "--drill", "bring-up") as cut,
    ):
        cut.until(MIDDLE)
        assert cut.leftovers()  # it looks where there is something
        code, seconds, out, said = cut.interrupted(signal.SIGINT)
        assert (code, said) == (130, "")
        assert "1 drill not played" in out
        assert seconds < END_SECONDS
        assert cut.leftovers() == []
        out, said = whole.process.communicate(timeout=LONG_SECONDS)
        assert (whole.process.returncode, said) == (0, "")
        told = json.loads(out)
        assert [drill["name"] for drill in told["drills"]] == ["bring-up", "second-up"]
        assert (told["project"], told["stack"]) == ("vllm-fleet", "dev")
        assert list(told["versions"].values()) == [
            one.version for one in (PULUMI, KUBERNETES_PROVIDER, KUBERNETES, KWOK, ETCD)
        ]
        assert whole.leftovers() == []
