"""The pictures of the README and the guides are what the stacks' recordings give."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fleet.cli.command import ROOT

pytestmark = pytest.mark.slow


def test_the_pictures_are_current() -> None:
    command = [sys.executable, "docs/generate/stack_pictures.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
