"""`fleet bench selftest`: its options and how it ends. The long ways through it are slow tests."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fleet.bench.certificate.certify import OPENINGS
from fleet.cli.main import main
from lab.selftest.load import SelfTest
from lab.selftest.true_client import require_vllm
from tests.fleet.cli.command import ROOT, fleet

TRUE = ROOT / ".venv-vllm" / "bin" / "python"


def played(*options: str, timeout: float = 300) -> tuple[int, dict[str, Any], str]:
    done = fleet("bench", "selftest", "--format=json", *options, timeout=timeout)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def disagreeing(said: dict[str, Any]) -> list[str]:
    return [
        f"{finding['subject']}: {finding['found']}" for finding in said["findings"] if finding["severity"] == "error"
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--slow-server", "--saturate"), "--slow-server .*--saturate"),
        (("--saturate", "--requests=9"), "--requests"),
        (("--saturate", "--clients=2"), "--clients"),
        (("--clients=9", "--connections=4"), "--connections 4: .* 9 "),
        (("--requests=100",), "--requests 100: .*128"),
        (("--vllm=/nowhere/python",), "--vllm /nowhere/python: .*make bench-vllm"),
        (("--slow-server", "--connections=40", "--requests=200"), "48 .*--slow-server"),
        (("--slow-server", "--servers=9"), "216 .*--slow-server"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    options: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(monkeypatch, capsys, *options)
    assert told.count("\n") == 1
    assert re.search(said, told)


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    monkeypatch.setattr(sys, "argv", ["fleet", "bench", "selftest", *options])
    assert main() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("fleet: ")
    return err


def test_a_folder_in_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "note").write_text("mine")
    assert "not empty" in refused(monkeypatch, capsys, f"--out={tmp_path}")
    assert [file.name for file in tmp_path.iterdir()] == ["note"]


def a_python(folder: Path, *files: str) -> Path:
    """A Python with a package `vllm` of these files on its path."""
    folder.mkdir()
    for name in files:
        (folder / "vllm" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "vllm" / name).touch()
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_a_python_without_vllms_client_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.write_text("not a program")
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\necho I am no Python >&2\nexit 3\n")
    mute.chmod(0o755)
    old = a_python(tmp_path / "old", "__init__.py")
    bare = a_python(tmp_path / "bare")
    said = {
        text: "(Permission denied)",
        mute: "(exit code 3: I am no Python)",
        old: f"vLLM in {tmp_path}/old/vllm",
    }
    if find_spec("vllm") is None:
        said[bare] = f"Python {platform.python_version()} without vLLM"
    for python, words in said.items():
        told = refused(monkeypatch, capsys, f"--vllm={python}")
        assert told.startswith(f"fleet: --vllm {python}: ")
        assert words in told
        assert "vLLM 0.18.1" in told
        assert told.count("\n") == 1
    require_vllm(a_python(tmp_path / "new", "__init__.py", "benchmarks/serve.py"))


def test_a_signal_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(test: SelfTest, _display: Any) -> Any:
        # First, so that a default handler does not end the tests themselves.
        assert signal.SIG_DFL not in (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP))
        assert list(tmp_path.iterdir()) == [test.folder]
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("lab.selftest.course.run", stopped)
    monkeypatch.setattr(sys, "argv", ["fleet", "bench", "selftest"])
    assert main() == 143
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_sound_servers_are_found_sound_and_the_page_is_there(tmp_path: Path) -> None:
    out = tmp_path / "kept"
    done = fleet("bench", "selftest", f"--out={out}", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 7 findings agree." in done.stdout
    assert "us of CPU a chunk" in done.stdout
    assert "One machine only" in done.stdout
    # Nobody waits without a word: which step, and how many requests.
    assert "running: run 1 of 1 with 64 requests in flight" in done.stderr
    assert re.search(r" of 320 requests \(\d+%\)", done.stderr)
    # "All agree" and "Not certified" stand on one page.
    assert "Not certified" in done.stdout
    assert (out / "merged.json").is_file()
    assert (out / "report" / "report.html").is_file()
    # What it keeps is a measurement like any other.
    merged = fleet("bench", "merge", str(out), "--format=json")
    assert merged.returncode == 1
    assert json.loads(merged.stdout)["measurement"]["asked"]["name"] == "selftest-00000000"


@pytest.mark.slow
def test_slow_servers_are_not_blamed_on_the_clients() -> None:
    code, said, _ = played("--slow-server")
    assert code == 0, disagreeing(said)
    failed = {check["id"]: check["blames"] for check in said["certificate"]["checks"] if check["verdict"] == "failed"}
    assert failed["engine-balance"] == "server"
    assert "client" not in failed.values()
    assert said["certificate"]["verdict"] == "not certified"


@pytest.mark.slow
def test_a_saturated_client_is_caught() -> None:
    code, said, told = played("--saturate")
    assert code == 0, disagreeing(said)
    assert OPENINGS["limit"] in said["certificate"]["reason"]
    assert "chunks/s to one client" in told
    # One that reads several chunks at once spends less on each.
    assert said["client"]["us_per_chunk"] < said["client_before"]["us_per_chunk"]


@pytest.mark.slow
@pytest.mark.skipif(not TRUE.exists(), reason="vLLM is not installed here: make bench-vllm installs it")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="servers and clients need a core each")
def test_the_true_client_agrees_with_servers_that_count_every_token() -> None:
    code, said, _ = played(f"--vllm={TRUE}", "--clients=3", "--connections=48", timeout=500)
    assert code == 0, disagreeing(said)
    assert said["program"] == "vllm bench serve 0.18.1"
