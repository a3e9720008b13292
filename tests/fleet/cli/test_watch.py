from __future__ import annotations

import codecs
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.cli.watch import _state
from tests.fleet.cli.command import ROOT, fleet

PREVIEW = (sys.executable, "-m", "fleet.cli.main", "preview", "--stack", "spot")
RULE = "\n" + "─" * 100 + "\n"
STAMP = " · Ctrl-C stops\n"
LIMIT = 0.25
"""Of a cold preview, from save to screen."""


def test_links_in_circles_and_to_nothing_are_passed_by(tmp_path: Path) -> None:
    for name in ("infra", "settings", "facts", "elsewhere"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "a.py").touch()
    every = {f"{name}/inner/a.py" for name in ("infra", "settings", "facts")}
    assert set(_state(tmp_path)) == every
    for name, target in {
        "infra/self": "self",
        "infra/up": "..",
        "infra/root": "../..",
        "infra/inner/back": "..",
        "infra/one": "two",
        "infra/two": "one",
        "infra/other": "../settings",
        "settings/other": "../infra",
        "facts/nothing.py": "nowhere.py",
        "Pulumi.here": ".",
        "Pulumi.top": "/",
        "Pulumi.loop.yaml": "Pulumi.loop.yaml",
    }.items():
        (tmp_path / name).symlink_to(target)
    assert set(_state(tmp_path)) == every
    (tmp_path / "infra" / "linked").symlink_to("../elsewhere")
    assert set(_state(tmp_path)) == every | {"infra/linked/inner/a.py"}


def test_what_vanishes_or_cannot_be_read_does_not_end_the_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("infra", "settings"):
        (tmp_path / name / "gone").mkdir(parents=True)
        (tmp_path / name / "a.py").touch()
    scandir = os.scandir

    def vanishing(folder: str | Path) -> Iterator[os.DirEntry[str]]:
        if Path(folder).name == "gone":
            raise NotADirectoryError(folder) if "infra" in str(folder) else PermissionError(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", vanishing)
    assert set(_state(tmp_path)) == {"infra/a.py", "settings/a.py"}
    monkeypatch.undo()
    shutil.rmtree(tmp_path)
    assert _state(tmp_path) == {}


@dataclass
class Watch:
    """A running `fleet preview --watch` in a copy of the project."""

    root: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes]
    out: Path
    seen: int = 0

    def text(self) -> str:
        return codecs.getincrementaldecoder("utf-8")().decode(self.out.read_bytes())  # half a character may be there

    def next(self) -> str:
        """The report of the next preview."""
        ends = time.monotonic() + 60
        while self.text().count(STAMP) <= self.seen:
            assert time.monotonic() < ends, self.text()[-2000:]
            assert self.process.poll() is None, self.text()[-2000:]
            time.sleep(0.005)
        chunk = self.text().split(STAMP)[self.seen]
        self.seen += 1
        return chunk.partition(RULE)[0]

    def cold(self) -> str:
        done = subprocess.run(PREVIEW, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    root = tmp_path_factory.mktemp("project")
    for name in ("settings", "facts", "infra", "workloads", "policy", "fleet"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (*ROOT.glob("Pulumi*"), ROOT / "__main__.py", ROOT / "requirements.txt"):
        shutil.copy(file, root / file.name)
    hidden = ("COLUMNS", "FORCE_COLOR", "PULUMI_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    environment |= {"PYTHONPATH": str(root), "PYTHONUTF8": "1"}
    out = root / "out.txt"
    with out.open("wb") as stream:
        process = subprocess.Popen((*PREVIEW, "--watch"), cwd=root, env=environment, stdout=stream, stderr=stream)
    try:
        yield Watch(root, environment, process, out)
    finally:
        process.kill()
        process.wait()


def replaced(file: Path, old: str, new: str) -> None:
    """Save as editors do: to a file beside it, which then takes its name."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    part = file.with_name("4913")
    part.write_text(text.replace(old, new), encoding="utf-8")
    part.replace(file)


def disable(file: Path) -> None:
    file.write_text('{"repeated-on-purpose": "disabled"}')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("", lambda _: None),
        ("Pulumi.spot.yaml", lambda file: replaced(file, "replicas: 12", "replicas: 11")),
        ("workloads/namespace.py", lambda file: replaced(file, '"gpu"', '"gpu-limit"')),
        ("settings/profiles.yaml", lambda file: replaced(file, "maxModelLen: 2560", "maxModelLen: 2561")),
        ("policy/config/spot.json", disable),
        ("facts/machines.py", lambda file: file.write_text(file.read_text() + "\n")),
    ],
)
def test_each_save_is_previewed_as_a_cold_preview_would(watch: Watch, name: str, save: Callable[[Path], None]) -> None:
    save(watch.root / name)
    report = watch.next().rpartition("starting again.\n")[2]
    assert report.removeprefix("\n") == watch.cold()


@pytest.mark.slow
def test_a_wrong_file_is_reported_and_the_next_save_previewed(watch: Watch) -> None:
    good = watch.cold()
    replaced(watch.root / "Pulumi.spot.yaml", "replicas: 11", "replicas: many")
    assert ": many" in watch.next()
    replaced(watch.root / "Pulumi.spot.yaml", "replicas: many", "replicas: 11")
    assert watch.next() == good


@pytest.mark.slow
def test_a_save_is_on_the_screen_in_a_quarter_of_a_cold_preview(watch: Watch) -> None:
    def seconds(act: Callable[[], object]) -> float:
        began = time.perf_counter()
        act()
        return time.perf_counter() - began

    def save() -> None:
        replaced(watch.root / "Pulumi.spot.yaml", "replicas: 11", "replicas: 11 ")
        watch.next()

    best = 1.0
    for _ in range(5):  # what else runs on the machine makes a ratio worse, and hardly ever better
        best = min(best, min(seconds(save) for _ in range(3)) / seconds(watch.cold))
    assert best <= LIMIT


@pytest.mark.slow
def test_ctrl_c_ends_it_as_clean(watch: Watch) -> None:
    watch.process.send_signal(signal.SIGINT)
    assert watch.process.wait(30) == 0
    assert "Traceback" not in watch.text()


def test_what_is_read_is_watched_and_nothing_else(tmp_path: Path) -> None:
    watched = ("Pulumi.dev.yaml", "infra/network.py")
    for name in (*watched, "Pulumi.dev.yaml~", ".Pulumi.dev.yaml.swp", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for folder in ("infra/__pycache__", "docs"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "network.py").touch()
    assert _state(tmp_path).keys() == set(watched)


@pytest.mark.parametrize(
    "options", [("--all-stacks",), ("--format", "json"), ("--against", "HEAD", "--detailed-exitcode")]
)
def test_one_stack_is_watched_as_text(options: tuple[str, ...]) -> None:
    done = fleet("preview", "--stack", "dev", "--watch", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--watch" in done.stderr
