"""One run of `go`: progress while it works, words when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.control_plane import go_command, toolchain
from lab.results.result import RehearsalError
from tests.lab.control_plane.conftest import FakeGo


def run(fake_go: FakeGo, tmp_path: Path, extra: str, **options: object) -> list[str]:
    fake_go.extra = extra
    found = toolchain.find(tmp_path, pytest.fail)
    fake_go.install()
    return go_command.run(found, ["vet"], folder=tmp_path, what="trying", **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_long_silence_has_a_heartbeat(fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_command, "HEARTBEAT_SECONDS", 0.3)
    beats: list[float] = []
    run(fake_go, tmp_path, "sleep 1.2", heartbeat=beats.append)
    assert len(beats) >= 2
    assert beats == sorted(beats)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("dial tcp: lookup proxy.example: no such host", "proxy does not answer.*the build resumes"),
        ("dial tcp 192.0.2.1:443: i/o timeout", "proxy does not answer"),
        ("reading https://proxy.example/x: 502 Bad Gateway", "proxy does not answer"),
        ("reading https://proxy.example/x: 403 Forbidden", "refuses a module; check GOPROXY"),
        ("module lookup disabled by GOPROXY=off", "refuses a module; check GOPROXY"),
        ("verifying module: checksum mismatch", "do not use it"),
        ("write /x: no space left on device", "the disk is full"),
        ("compile: signal: killed", "out of memory"),
    ],
)
def test_a_failure_says_what_why_and_what_go_said(fake_go: FakeGo, tmp_path: Path, said: str, why: str) -> None:
    with pytest.raises(RehearsalError, match=f"^trying failed: .*{why}") as caught:
        run(fake_go, tmp_path, f"echo '{said}'; exit 1")
    assert said in str(caught.value)


def test_an_unknown_failure_is_quoted(fake_go: FakeGo, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match=r"^trying failed. Output of go:\n  undefined: x$"):
        run(fake_go, tmp_path, "echo 'undefined: x'; exit 1")
