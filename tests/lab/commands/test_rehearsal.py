"""One stack's rehearsal put together, with every heavy part stood in for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lab.commands.rehearsal as module
from facts.finding import Finding
from fleet.preview.offline import open_stack, record_stack
from lab.control_plane.build import ETCD, KUBERNETES, KWOK, PULUMI
from lab.drills.catalogue import chosen
from lab.engine.installation import Plugin, wanted_provider
from lab.report.model import RehearsalReport
from lab.report.progress import Progress
from lab.results.result import DrillResult
from settings.problems import SettingsError

ROOT = Path(__file__).parents[3]
DRILLS = chosen(["bring-up", "second-up"])


@dataclass
class Parts:
    """What the stand-ins were asked for, and what they answer."""

    builds: int = 0
    around: Any = None
    played: tuple[str, ...] = ()
    steps: list[str] = field(default_factory=list)
    kubernetes_version: str = "v1.99.0"
    pulumi: Any = None
    engines: int = 0
    said: str = "held"
    stopped: BaseException | None = None
    """What stops the run after its first drill."""


class Steps(Progress):
    """Keeps what is shown."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(None)
        self._parts = parts

    def starts(self, name: str) -> None:
        self._parts.steps.append(name)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    parts = Parts()

    class FakeRunner:
        retained: tuple[Any, ...] = ()
        scales: tuple[Any, ...] = ()
        stopped: BaseException | None = None

        def __init__(self, _opened: Any, around: Any, *, on_start: Any, on_result: Any) -> None:
            parts.around = around
            self._on_start, self._on_result = on_start, on_result
            self.kubernetes_version, self.pulumi = parts.kubernetes_version, parts.pulumi

        def play(self, drills: Any) -> tuple[DrillResult, ...]:
            parts.played = tuple(one.name for one in drills)
            results = []
            self.stopped = parts.stopped
            for one in drills[:1] if parts.stopped else drills:
                self._on_start(one)
                finding = Finding(id="x", severity="warning", subject="x", found=parts.said, write="none")
                result = DrillResult(name=one.name, title=one.title, proves=one.proves, checks=(), findings=(finding,))
                self._on_result(result)
                results.append(result)
            return tuple(results)

    def programs(_progress: Any) -> Any:
        parts.builds += 1
        return SimpleNamespace()

    monkeypatch.setattr(module, "Runner", FakeRunner)
    monkeypatch.setattr(module, "binaries", programs)

    def pulumi(_progress: Any) -> None:
        parts.engines += 1

    monkeypatch.setattr(module, "pulumi", pulumi)
    monkeypatch.setattr(module, "users_own", lambda: None)
    monkeypatch.setattr(module, "module_folders", lambda _: {})
    monkeypatch.setattr(module, "definitions", lambda _: [])
    monkeypatch.setattr(module, "kubernetes_provider", lambda _: Plugin(program=Path("/nowhere"), version="v4.24.0"))
    for charts in (module.keda, module.pool):
        monkeypatch.setattr(charts, "chart", lambda _: None)
    return parts


def rehearsed(parts: Parts, stack: str = "dev") -> RehearsalReport:
    return module.rehearse(ROOT, stack, DRILLS, progress=Steps(parts))


def test_the_report_says_what_was_played_on_what(parts: Parts) -> None:
    report = rehearsed(parts)
    assert [one.name for one in report.drills] == ["bring-up", "second-up"]
    assert (report.project, report.stack) == ("vllm-fleet", "dev")
    assert (report.versions.kubernetes, report.versions.kwok) == ("v1.99.0", KWOK.version)
    assert report.versions.etcd == ETCD.version
    assert (report.versions.pulumi, report.versions.provider) == (PULUMI.version, "v4.24.0")
    assert (parts.builds, parts.engines) == (1, 1)


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_stopped_run_names_the_drills_without_a_result(parts: Parts, stop: BaseException, code: int) -> None:
    parts.stopped = stop
    report = rehearsed(parts)
    assert [one.name for one in report.drills] == ["bring-up"]
    assert (report.not_played, report.stop_code, report.passed) == (("second-up",), code, False)


def test_a_users_own_engine_is_not_built_again(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "users_own", lambda: Path("/usr/bin/pulumi"))
    parts.pulumi = SimpleNamespace(installation=SimpleNamespace(version="v3.280.0"))
    assert rehearsed(parts).versions.pulumi == "v3.280.0"
    assert parts.engines == 0


def test_a_provider_older_than_the_sdk_is_told(parts: Parts) -> None:
    assert any("v4.24.0" in limit and wanted_provider() in limit for limit in rehearsed(parts).limits)


def test_where_no_stage_was_needed_the_version_is_the_pinned_one(parts: Parts) -> None:
    parts.kubernetes_version = ""
    assert rehearsed(parts).versions.kubernetes == KUBERNETES.version


def test_progress_goes_from_the_program_to_the_last_drill(parts: Parts) -> None:
    rehearsed(parts)
    assert parts.steps == [
        "record the program",
        "build the control plane",
        "1/2 bring-up",
        "2/2 second-up",
    ]


def test_a_stack_that_is_refused_builds_nothing(parts: Parts) -> None:
    with pytest.raises(SettingsError, match=r"Pulumi\.sopt\.yaml"):
        rehearsed(parts, "sopt")
    assert parts.builds == 0


def test_no_secret_of_the_stack_is_in_the_report(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = replace(record_stack(open_stack(ROOT, "dev"), "known"), secrets=frozenset({"hf_verysecret"}))
    monkeypatch.setattr(module, "record_stack", lambda *_: recording)
    parts.said = "refused: token hf_verysecret is wrong"
    report = rehearsed(parts)
    assert "hf_verysecret" not in str(report)
    assert "is wrong" in str(report)
