"""One stack's rehearsal put together, where the real one of tests/lab/test_processes.py does not come: heavy parts are stood in for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lab.commands.rehearsal as module
from facts.finding import Finding
from fleet.preview.offline import open_stack, record_stack
from lab.control_plane.build import KUBERNETES, PULUMI
from lab.drills.catalogue import chosen
from lab.engine.installation import Plugin
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
    pulumi: Any = None
    engines: int = 0
    said: str = "held"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    parts = Parts()

    class FakeRunner:
        retained: tuple[Any, ...] = ()
        stopped: BaseException | None = None
        kubernetes_version = ""
        """No stage was needed."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.pulumi = parts.pulumi

        def play(self, drills: Any) -> tuple[DrillResult, ...]:
            finding = Finding(id="x", severity="warning", subject="x", found=parts.said, write="none")
            return tuple(
                DrillResult(name=one.name, title=one.title, proves=one.proves, checks=(), findings=(finding,))
                for one in drills
            )

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


def rehearsed(stack: str = "dev") -> RehearsalReport:
    return module.rehearse(ROOT, stack, DRILLS, progress=Progress(None))


@pytest.mark.parametrize(("stop", "code"), [(None, 0), (KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_stop_is_an_exit_code_as_shells_have_it(stop: KeyboardInterrupt | SystemExit | None, code: int) -> None:
    assert module._exit_code(stop) == code


def test_where_no_stage_was_needed_the_versions_are_the_pinned_ones(parts: Parts) -> None:
    versions = rehearsed().versions
    assert (versions.kubernetes, versions.pulumi) == (KUBERNETES.version, PULUMI.version)
    assert (parts.builds, parts.engines) == (1, 1)


def test_a_users_own_engine_is_not_built_again(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "users_own", lambda: Path("/usr/bin/pulumi"))
    parts.pulumi = SimpleNamespace(installation=SimpleNamespace(version="v3.280.0"))
    assert rehearsed().versions.pulumi == "v3.280.0"
    assert parts.engines == 0


def test_a_stack_that_is_refused_builds_nothing(parts: Parts) -> None:
    with pytest.raises(SettingsError, match=r"Pulumi\.sopt\.yaml"):
        rehearsed("sopt")
    assert parts.builds == 0


def test_no_secret_of_the_stack_is_in_the_report(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = replace(record_stack(open_stack(ROOT, "dev"), "known"), secrets=frozenset({"hf_verysecret"}))
    monkeypatch.setattr(module, "record_stack", lambda *_: recording)
    parts.said = "refused: token hf_verysecret is wrong"
    report = rehearsed()
    assert "hf_verysecret" not in str(report)
    assert "is wrong" in str(report)
