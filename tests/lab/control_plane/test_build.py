"""Building into the cache, with a stand-in for Go: what is kept, what is not, and who waits for whom."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.control_plane import build
from lab.control_plane.build import (
    KUBERNETES,
    KUBERNETES_PROVIDER,
    KWOK,
    PULUMI,
    SOURCES,
    binaries,
    is_built,
    kubernetes_provider,
)
from lab.control_plane.toolchain import GO_FOLDER
from lab.results.result import RehearsalError
from tests.lab.control_plane.conftest import FakeGo
from tests.support.waiting import alive, within

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
EVERYTHING = {name for source in SOURCES for name in (*source.packages, *source.scripts)}


def cached(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "cache" / "control-plane").glob("*-v*/*")}


def test_every_staging_module_of_kubernetes_has_the_version_of_its_release() -> None:
    text = KUBERNETES.files[0].read_text()
    replaced = [line.split() for line in text.splitlines() if line.startswith("replace k8s.io/")]
    assert len(replaced) > 30
    assert {words[-1] for words in replaced} == {"v0" + KUBERNETES.version.removeprefix("v1")}


def test_the_key_changes_with_whatever_the_programs_depend_on() -> None:
    assert len({source.key for source in (*SOURCES, PULUMI, KUBERNETES_PROVIDER)}) == 5
    assert dataclasses.replace(KUBERNETES, version_variables=()).key != KUBERNETES.key
    assert KUBERNETES.key == dataclasses.replace(KUBERNETES).key


def test_everything_is_built_once_and_then_taken_from_the_cache_without_go(fake_go: FakeGo, tmp_path: Path) -> None:
    said: list[str] = []
    first = binaries(said.append)
    for program in (first.etcd, first.api_server, first.controller_manager, first.scheduler, first.kwok):
        assert os.access(program, os.X_OK)
    assert cached(tmp_path) == EVERYTHING
    assert fake_go.calls.count("build") == 3
    assert any(KUBERNETES.version in line and "Go 1.26.8" in line for line in said)
    assert is_built(*SOURCES)
    assert not is_built(*SOURCES, PULUMI)
    (fake_go.folder / "go").unlink()
    said.clear()
    assert binaries(said.append) == first
    assert said == []


def test_windows_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(RehearsalError, match="Subsystem for Linux"):
        binaries(pytest.fail)


def test_a_program_that_is_not_the_pinned_version_is_not_kept(fake_go: FakeGo, tmp_path: Path) -> None:
    fake_go.says = "v1.36.2"
    fake_go.install()
    with pytest.raises(RehearsalError, match=r"kube-apiserver.* v1\.36\.3: v1\.36\.2"):
        binaries(lambda _: None)
    assert cached(tmp_path) == set()


def test_a_failed_build_keeps_nothing_and_the_next_one_works(fake_go: FakeGo, tmp_path: Path) -> None:
    fake_go.extra = 'if [ "$1" = build ]; then echo "no space left on device"; exit 1; fi'
    fake_go.install()
    with pytest.raises(RehearsalError, match=r"Kubernetes.*\bdisk\b"):
        binaries(lambda _: None)
    assert cached(tmp_path) == set()
    fake_go.extra = ""
    fake_go.install()
    binaries(lambda _: None)
    assert cached(tmp_path) == EVERYTHING
    assert not list((tmp_path / "cache" / "control-plane").glob("building-*"))


BUILD = "from lab.control_plane.build import binaries; binaries(lambda line: print(line, flush=True))"


def spawn() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", BUILD], cwd=ROOT, text=True, stdout=subprocess.PIPE)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_build_ends_go_and_leaves_nothing_half_done(
    fake_go: FakeGo, tmp_path: Path, number: int
) -> None:
    pid = tmp_path / "pid"
    fake_go.extra = f'if [ "$1" = build ]; then echo $$ > {pid}; sleep 600; fi'
    fake_go.install()
    process = spawn()
    while not pid.exists() or not pid.read_text():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate(timeout=10)
    assert within(5, lambda: not alive(int(pid.read_text())))
    assert cached(tmp_path) == set()


def test_two_processes_build_once(fake_go: FakeGo, tmp_path: Path) -> None:
    fake_go.extra = 'if [ "$1" = build ]; then sleep 0.5; fi'
    fake_go.install()
    both = [spawn(), spawn()]
    said = [process.communicate(timeout=30)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert fake_go.calls.count("build") == 3
    assert any("waiting" in text for text in said)
    assert cached(tmp_path) == EVERYTHING


def test_the_repository_is_not_touched(fake_go: FakeGo) -> None:
    fake_go.extra = 'case "$1" in build|list) echo "// changed" >> go.mod;; esac'
    before = {file: file.read_bytes() for file in GO_FOLDER.glob("*/*")}
    fake_go.install()
    binaries(lambda _: None)
    assert {file: file.read_bytes() for file in GO_FOLDER.glob("*/*")} == before


@pytest.mark.usefixtures("fake_go")
def test_versions_nobody_used_for_long_are_removed_and_used_ones_stay(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "control-plane"
    for name, days in (("kwok-v0.7.0-old", 40), ("kwok-v0.7.1-used", 3), ("kubernetes-v1.35.0-old", 40)):
        (folder / name).mkdir(parents=True)
        then = time.time() - days * 24 * 3600
        os.utime(folder / name, (then, then))
    build._provide(KWOK, lambda _: None)
    assert {path.name for path in folder.glob("*-v*")} == {"kwok-v0.7.1-used", "kubernetes-v1.35.0-old", KWOK.home}


@pytest.mark.usefixtures("fake_go")
def test_using_a_program_counts_as_use() -> None:
    program = kubernetes_provider(lambda _: None)
    os.utime(program.parent, (0, 0))
    kubernetes_provider(pytest.fail)
    assert time.time() - program.parent.stat().st_mtime < 60


@pytest.mark.usefixtures("fake_go")
def test_a_private_build_cache_is_removed_once_its_programs_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = tmp_path / "own"
    compiled.mkdir()
    real = build.toolchain.find(tmp_path, pytest.fail)
    monkeypatch.setattr(build.toolchain, "find", lambda *_: dataclasses.replace(real, own_build_cache=compiled))
    binaries(lambda _: None)
    assert not compiled.exists()


def test_go_sum_covers_every_module_of_go_mod() -> None:
    for folder in GO_FOLDER.iterdir():
        sums = (folder / "go.sum").read_text()
        for line in (folder / "go.mod").read_text().splitlines():
            words = line.split()
            if line.startswith("\t") and len(words) > 1 and words[1].startswith("v") and words[1] != "v0.0.0":
                replaced = f"replace {words[0]} => {words[0]} " in (folder / "go.mod").read_text()
                assert replaced or f"{words[0]} {words[1]}/go.mod h1:" in sums, f"{folder.name}: {words[0]}"
