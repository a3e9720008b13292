from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.clients.scratch import scratch

_PROGRAM = """
import sys, time
from pathlib import Path
from fleet.clients.scratch import scratch
with scratch("test", Path(sys.argv[1]) if sys.argv[1:] else None) as folder:
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
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """One that has a scratch folder, and the folder."""
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, *arguments], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running, Path(running.stdout.readline().strip())
        finally:
            running.kill()


def aged(folder: Path) -> None:
    os.utime(folder, (time.time() - 3600,) * 2)


def test_a_stopped_process_leaves_nothing(place: Path) -> None:
    with process() as (running, folder):
        assert (folder.parent, folder.stat().st_mode & 0o777) == (place, 0o700)
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 128 + signal.SIGTERM
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("beside", [False, True])
def test_what_a_killed_process_left_goes_with_the_next_run(place: Path, beside: bool) -> None:
    given = place / "rendered" if beside else None
    with process(*([str(given)] if beside else [])) as (running, folder):
        aged(folder)
        with scratch("other", given):
            assert folder.is_dir()  # its process lives
        running.kill()
        running.wait(30)
        # A link to it, a file and somebody's folder of a similar name stay.
        kept = {place / "fleet-tmp-test-abcdefgh", place / "fleet-tmp-test-12345678", place / "fleet-tmp-test-mine"}
        (place / "fleet-tmp-test-abcdefgh").symlink_to(place)
        (place / "fleet-tmp-test-12345678").touch()
        (place / "fleet-tmp-test-mine").mkdir()
        for one in kept:
            aged(one)
        with scratch("other", given) as mine:
            assert set(place.iterdir()) == {mine, *kept}
    assert set(place.iterdir()) == kept


def test_a_young_folder_stays(place: Path) -> None:
    young = place / "fleet-tmp-test-00000000"
    young.mkdir()
    with scratch("other"):
        pass
    assert young.is_dir()
