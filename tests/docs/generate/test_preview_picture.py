"""The README's picture is what the command prints."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fleet.cli.command import ROOT

pytestmark = pytest.mark.slow


def test_the_picture_is_current_and_fetches_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate/preview_picture.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    drawn = (ROOT / "docs" / "img" / "preview-spot.svg").read_text(encoding="utf-8")
    assert "1,103,941" in drawn
    assert "url(http" not in drawn
    assert 'url("http' not in drawn
