from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PROGRAM = """
import time
from fleet.clients.scratch import scratch
with scratch("test") as folder:
    (folder / "secret").write_text("secret")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def process() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """One that has a scratch folder, and the folder."""
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running, Path(running.stdout.readline().strip())
        finally:
            running.kill()


def test_a_stopped_process_leaves_nothing(place: Path) -> None:
    with process() as (running, folder):
        assert (folder.parent, folder.stat().st_mode & 0o777) == (place, 0o700)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 128 + signal.SIGTERM
    assert list(place.iterdir()) == []
