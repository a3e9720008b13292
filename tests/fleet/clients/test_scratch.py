from __future__ import annotations

import signal
import subprocess
import sys
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


def test_a_stopped_process_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            folder = Path(running.stdout.readline().strip())
            assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path, 0o700)
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 128 + signal.SIGTERM
        finally:
            running.kill()
    assert list(tmp_path.iterdir()) == []
