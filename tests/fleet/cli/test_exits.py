"""How a command ends, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.cli.command import ROOT


def ended(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from fleet.cli.exits import leave\n{code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_leave_flushes_and_keeps_the_code() -> None:
    done = ended("print('last words', end=''); leave(3)")
    assert (done.returncode, done.stdout) == (3, "last words")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_leave_fails_when_nobody_can_read_the_output() -> None:
    done = ended("import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('lost'); leave(0)")
    assert done.returncode != 0
