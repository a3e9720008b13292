"""`fleet doctor`: what a machine lacks, told with the command that mends it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli import machine
from cli.machine import Check, inspect_machine, lacks
from tests.cli.command import ROOT, SMALL_STACK, fleet, project

TOOLS = {
    "pulumi": "echo v3.272.0",
    "go": "echo go version go1.26.8 linux/amd64",
    "gcloud": "exit 0",
    "gke-gcloud-auth-plugin": "exit 0",
    "kubectl": "exit 0",
}


def tools(folder: Path, **replaced: str | None) -> str:
    """A PATH with stand-ins for the tools; None leaves one out."""
    folder.mkdir(exist_ok=True)
    for name, script in {**TOOLS, **{key.replace("_", "-"): value for key, value in replaced.items()}}.items():
        if script is not None:
            path = folder / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
    return str(folder)


def examined(tmp_path: Path, *arguments: str, home: Path | None = None, **environment: str) -> dict[str, Any]:
    path = environment.pop("path", None) or tools(tmp_path / "bin")
    environment["HOME"] = str(home or tmp_path)
    done = fleet("doctor", "--format", "json", *arguments, cwd=ROOT, path=path, **environment)
    document: dict[str, Any] = json.loads(done.stdout)
    document["exit"] = done.returncode
    document["by_name"] = {check["name"]: check for check in document["checks"]}
    return document


def test_a_bare_machine_can_preview_and_nothing_else(tmp_path: Path) -> None:
    found = examined(tmp_path, path=str(tmp_path))
    assert found["ready"] == {"preview": True, "rehearse": False, "up": False}
    assert found["exit"] == 0
    for name in ("pulumi", "gcloud", "gke-gcloud-auth-plugin", "kubectl", "go"):
        assert found["by_name"][name]["ok"] is False
        assert found["by_name"][name]["found"] == "not on PATH"


@pytest.mark.parametrize(("step", "code"), [("preview", 0), ("rehearse", 1), ("up", 1)])
def test_the_step_asked_for_decides_the_exit_code(tmp_path: Path, step: str, code: int) -> None:
    assert examined(tmp_path, "--for", step, path=str(tmp_path))["exit"] == code


def test_a_machine_with_everything_is_ready_for_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".pulumi").mkdir(parents=True)
    (home / ".pulumi" / "credentials.json").write_text("never read")
    (home / ".config" / "gcloud").mkdir(parents=True)
    (home / ".config" / "gcloud" / "application_default_credentials.json").write_text("never read")
    folder = project(tmp_path / "project", blue=SMALL_STACK)
    found = examined(tmp_path, "--for", "up", "--root", str(folder), home=home)
    assert found["ready"] == {"preview": True, "rehearse": True, "up": True}, found
    assert found["exit"] == 0


def test_an_older_pulumi_than_the_sdk_is_a_lack(tmp_path: Path) -> None:
    check = examined(tmp_path, path=tools(tmp_path / "bin", pulumi="echo v3.100.0"))["by_name"]["pulumi"]
    assert (check["ok"], check["found"]) == (False, "3.100.0")
    assert "--version 3.272.0" in check["mend"]


def test_a_tool_that_does_not_answer_is_a_lack_not_a_crash(tmp_path: Path) -> None:
    found = examined(tmp_path, path=tools(tmp_path / "bin", pulumi="exit 3", go="echo none"))
    assert found["by_name"]["pulumi"]["ok"] is False
    assert found["by_name"]["go"]["ok"] is False


def test_credentials_are_looked_for_and_never_shown(tmp_path: Path) -> None:
    token = "ya29.never-shown"
    found = examined(tmp_path, GOOGLE_OAUTH_ACCESS_TOKEN=token, PULUMI_ACCESS_TOKEN=token)
    assert found["by_name"]["google credentials"]["ok"] is True
    assert found["by_name"]["pulumi login"]["ok"] is True
    assert token not in json.dumps(found)


def test_a_credentials_file_that_is_not_there_is_a_lack(tmp_path: Path) -> None:
    check = examined(tmp_path, GOOGLE_APPLICATION_CREDENTIALS="/nowhere.json")["by_name"]["google credentials"]
    assert check["ok"] is False
    assert "names a file that is not there" in check["found"]


def test_the_placeholder_project_is_a_lack_of_up_alone(tmp_path: Path) -> None:
    found = examined(tmp_path, "--stack", "spot")
    check = found["by_name"]["project id"]
    assert check["steps"] == ["up"]
    assert check["found"] == "still the placeholder in spot"
    assert check["mend"] == "pulumi config set gcp:project MY-PROJECT --stack spot"


def test_an_unreadable_stack_file_is_told(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", blue="config: [\n")
    assert "cannot be read" in examined(tmp_path, "--root", str(folder))["by_name"]["project id"]["found"]


def test_a_package_of_another_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = machine._installed
    monkeypatch.setattr(machine, "_installed", lambda name: "1.0" if name == "pulumi-gcp" else installed(name))
    check = _named("packages")
    assert not check.ok
    assert check.found == "pulumi-gcp 1.0, pinned 10.2.0"
    assert check.mend.endswith("-m pip install -r requirements-dev.txt")


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = machine._installed
    monkeypatch.setattr(machine, "_installed", lambda name: None if name == "typer" else installed(name))
    assert "typer missing, pinned" in _named("packages").found


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    checks = inspect_machine(ROOT)
    assert {check.name for check in lacks(checks, "preview")} == {"python"}


def test_people_get_a_command_for_each_lack(tmp_path: Path) -> None:
    text = fleet("doctor", path=str(tmp_path), HOME=str(tmp_path)).stdout
    assert text.startswith("preview  ready")
    assert "→ curl -fsSL https://get.pulumi.com" in text
    assert "→ gcloud components install gke-gcloud-auth-plugin" in text


def _named(name: str) -> Check:
    return next(check for check in inspect_machine(ROOT) if check.name == name)


def test_the_interpreter_is_the_one_that_runs() -> None:
    assert _named("python").found == ".".join(map(str, sys.version_info[:3]))
