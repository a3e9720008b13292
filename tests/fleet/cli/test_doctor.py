"""`fleet doctor`: what a machine lacks, told with the command that mends it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from facts.finding import Finding
from fleet.cli import lab
from fleet.clients.google_api import VARIABLE
from fleet.doctor import machine
from fleet.doctor.machine import Prerequisite, Step, inspect_machine, needed_by
from lab.commands import prerequisites
from lab.control_plane import build, cache, modules, toolchain
from tests.conftest import Golden
from tests.fleet.cli.command import ROOT, SMALL_STACK, fleet, project
from tests.fleet.doctor.fake_project import B200, QUOTAS, TOKEN, FakeProject, limit, quota, session

pytestmark = pytest.mark.slow

TOOLS = {
    "pulumi": "echo v3.272.0",
    "go": "echo go version go1.26.8 linux/amd64",
    "gcloud": 'test "$1 $2" = "auth list" && echo me@example.com',
    "gke-gcloud-auth-plugin": "exit 0",
    "kubectl": "exit 0",
}


def inspected(root: Path) -> tuple[Prerequisite, ...]:
    return inspect_machine(root, of_rehearsals=lab.prerequisites())


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
    environment |= {"HOME": str(home or tmp_path), "XDG_CACHE_HOME": "", "VLLM_FLEET_CACHE": ""}
    done = fleet("doctor", "--format", "json", *arguments, cwd=ROOT, path=path, **environment)
    document: dict[str, Any] = json.loads(done.stdout)
    document["exit"] = done.returncode
    document["by_name"] = {one["subject"]: one for one in document["findings"]}
    return document


def test_a_bare_machine_can_preview_and_rehearse_and_nothing_else(tmp_path: Path) -> None:
    found = examined(tmp_path, path=str(tmp_path))
    assert found["ready"] == {"preview": True, "rehearse": True, "up": False, "bench": False, "pull-requests": False}
    assert found["exit"] == 0
    for name in ("pulumi", "gcloud", "gke-gcloud-auth-plugin", "kubectl"):
        assert found["by_name"][name]["severity"] == "error"
        assert found["by_name"][name]["found"] == "not on PATH"


@pytest.mark.parametrize(("step", "code"), [("preview", 0), ("rehearse", 0), ("up", 1), ("bench", 1)])
def test_the_step_asked_for_decides_the_exit_code(tmp_path: Path, step: str, code: int) -> None:
    assert examined(tmp_path, "--for", step, path=str(tmp_path))["exit"] == code


def test_without_go_a_rehearsal_installs_one_and_the_doctor_says_so(tmp_path: Path) -> None:
    check = examined(tmp_path, path=str(tmp_path))["by_name"]["go"]
    assert check["severity"] == "passed"
    assert check["found"].endswith(toolchain.GO_BIN)


@pytest.mark.parametrize(
    ("version", "found"), [("1.26.6", "1.26.6"), ("1.27.1", "1.27.1"), ("1.26.5", "1.26.5, too old")]
)
def test_go_must_be_what_the_newest_module_asks_for(tmp_path: Path, version: str, found: str) -> None:
    path = tools(tmp_path / "bin", go=f"echo go version go{version} linux/amd64")
    check = examined(tmp_path, path=path)["by_name"]["go"]
    assert check["severity"] == "passed"
    assert check["found"].partition(";")[0] == found
    assert "1.26.6 or newer" in check["why"]


def test_neither_go_nor_pip_is_a_lack_of_rehearse_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.OVERRIDE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(prerequisites, "find_spec", lambda _: None)
    checks = inspected(ROOT)
    assert lacking(checks, "rehearse") == ["go"]
    assert lacking(checks, "preview") == []
    check = _named("go", checks)
    assert check.found == "none on PATH, and no pip"
    assert "ensurepip" in check.write
    assert "https://go.dev/dl" in check.write


def test_no_go_is_needed_once_the_control_plane_is_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(cache.OVERRIDE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # nor a Pulumi of the user's
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    monkeypatch.setattr(prerequisites, "find_spec", lambda _: None)

    def keep(source: build.Source) -> list[Path]:
        programs = [cache.place() / source.home / name for name in (*source.packages, *source.scripts)]
        for program in programs:
            program.parent.mkdir(parents=True, exist_ok=True)
            program.touch()
        return programs

    control_plane = [program for source in build.SOURCES for program in keep(source)]
    assert _named("go").blocks  # the definitions of custom resources come from Go modules too
    for path, version in modules.pinned().items():
        (cache.place() / "modules" / f"{path}@{version}" / "config").mkdir(parents=True)
    assert not _named("go").blocks
    for title, source in (("engine", build.PULUMI), ("Kubernetes provider", build.KUBERNETES_PROVIDER)):
        assert title in _named("go").found
        keep(source)
        assert title not in _named("go").found
    control_plane[-1].unlink()
    assert _named("go").blocks


def test_looking_leaves_no_cache_folder_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cache.OVERRIDE, str(tmp_path / "none"))
    _named("go")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("package", "version", "subject", "step", "found", "write"),
    [
        ("kubernetes", None, "rehearsal packages", "rehearse", "kubernetes missing, pinned ", "make setup-rehearsal"),
        ("numpy", None, "benchmark packages", "bench", "numpy missing, pinned ", "make setup-benchmark"),
        ("typer", None, "packages", "preview", "typer missing, pinned ", "constraints.txt --editable '.'"),
        ("pulumi-gcp", "1.0", "packages", "preview", "pulumi-gcp 1.0, pinned 10.2.0", "constraints.txt --editable '.'"),
    ],
)
def test_a_package_is_a_lack_of_the_steps_that_need_it_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch, package: str, version: str | None, subject: str, step: Step, found: str, write: str
) -> None:
    installed = machine._installed
    monkeypatch.setattr(machine, "_installed", lambda name: version if name == package else installed(name))
    checks = inspected(ROOT)
    assert subject in lacking(checks, step)
    assert lacking(checks, "preview") == ([subject] if step == "preview" else [])
    check = _named(subject, checks)
    assert check.found.startswith(found)
    assert check.write.endswith(write)


def test_windows_rehearses_in_its_subsystem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    check = prerequisites.system()
    assert (check.finding.severity, check.finding.found, check.steps) == ("error", "win32", ("rehearse",))
    assert "Windows Subsystem for Linux" in check.finding.write


def test_a_machine_with_everything_is_ready_for_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".pulumi").mkdir(parents=True)
    (home / ".pulumi" / "credentials.json").write_text("never read")
    (home / ".config" / "gcloud").mkdir(parents=True)
    (home / ".config" / "gcloud" / "application_default_credentials.json").write_text("never read")
    folder = project(tmp_path / "project", blue=SMALL_STACK)
    found = examined(tmp_path, "--for", "up", "--root", str(folder), home=home)
    assert found["ready"] == {"preview": True, "rehearse": True, "up": True, "bench": True, "pull-requests": False}, (
        found
    )
    assert found["exit"] == 0


def test_an_older_pulumi_than_the_sdk_is_a_lack(tmp_path: Path) -> None:
    check = examined(tmp_path, path=tools(tmp_path / "bin", pulumi="echo v3.100.0"))["by_name"]["pulumi"]
    assert (check["severity"], check["found"]) == ("error", "3.100.0")
    assert "--version 3.272.0" in check["write"]


def test_a_tool_that_does_not_answer_is_a_lack_not_a_crash(tmp_path: Path) -> None:
    found = examined(tmp_path, path=tools(tmp_path / "bin", pulumi="exit 3", go="echo none"))
    assert found["by_name"]["pulumi"]["severity"] == "error"
    assert found["by_name"]["go"]["found"].startswith("none on PATH")


def test_a_gcloud_without_a_login_is_a_lack_of_what_reaches_a_cluster(tmp_path: Path) -> None:
    (tmp_path / ".config" / "gcloud").mkdir(parents=True)
    (tmp_path / ".config" / "gcloud" / "application_default_credentials.json").write_text("another login")
    check = examined(tmp_path, path=tools(tmp_path / "bin", gcloud="exit 0"))["by_name"]["gcloud login"]
    assert (check["severity"], check["found"], check["write"]) == (
        "error",
        "no account is active",
        "gcloud auth login --update-adc",
    )
    check = examined(tmp_path)["by_name"]["gcloud login"]
    assert (check["severity"], check["found"]) == ("passed", "me@example.com is active")


def test_credentials_are_looked_for_and_never_shown(tmp_path: Path) -> None:
    token = "ya29.never-shown"
    found = examined(tmp_path, GOOGLE_OAUTH_ACCESS_TOKEN=token, PULUMI_ACCESS_TOKEN=token)
    assert found["by_name"]["google credentials"]["severity"] == "passed"
    assert found["by_name"]["pulumi login"]["severity"] == "passed"
    assert token not in json.dumps(found)


def test_a_credentials_file_that_is_not_there_is_a_lack(tmp_path: Path) -> None:
    check = examined(tmp_path, GOOGLE_APPLICATION_CREDENTIALS="/nowhere.json")["by_name"]["google credentials"]
    assert check["severity"] == "error"
    assert "GOOGLE_APPLICATION_CREDENTIALS" in check["found"]


def test_the_placeholder_project_is_a_lack_of_what_reaches_a_cloud(tmp_path: Path) -> None:
    found = examined(tmp_path, "--stack", "spot")
    check = found["by_name"]["project id"]
    assert [step for step, ids in found["steps"].items() if check["id"] in ids] == ["up", "bench"]
    assert check["found"].endswith(" in spot")
    assert check["write"] == "pulumi config set gcp:project MY-PROJECT --stack spot"


def test_a_stack_that_is_not_there_is_refused_with_the_nearest() -> None:
    done = fleet("doctor", "--stack", "smok")
    assert (done.returncode, done.stdout) == (2, "")
    assert "smoke" in done.stderr


def test_one_stack_with_a_project_is_enough_and_is_named(tmp_path: Path) -> None:
    own = {
        name: f"config: {{gcp:project: {id_}}}\n" for name, id_ in (("mine", "acme-ml"), ("yours", "your-project-id"))
    }
    folder = project(tmp_path / "project", **own)
    check = examined(tmp_path, "--root", str(folder))["by_name"]["project id"]
    assert (check["severity"], check["found"]) == ("passed", "set in mine")


def test_an_unreadable_stack_file_is_told(tmp_path: Path) -> None:
    folder = project(tmp_path / "project", blue="config: [\n")
    assert "unreadable stack file" in examined(tmp_path, "--root", str(folder))["by_name"]["project id"]["found"]


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    checks = inspected(ROOT)
    assert set(lacking(checks, "preview")) == {"python"}


def test_people_get_a_command_for_each_lack(tmp_path: Path, golden: Golden) -> None:
    hidden = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "VLLM_FLEET_CACHE": ""}
    text = fleet("doctor", path=str(tmp_path), **hidden).stdout
    golden("doctor/bare.txt", text.replace(".".join(map(str, sys.version_info[:3])), "3.11.9"))


def test_one_step_is_shown_alone(tmp_path: Path) -> None:
    hidden = {"HOME": str(tmp_path), "XDG_CACHE_HOME": "", "VLLM_FLEET_CACHE": ""}
    lines = fleet("doctor", "--for", "bench", path=str(tmp_path), **hidden).stdout.splitlines()
    (rule,) = (number for number, line in enumerate(lines) if line.startswith("──"))
    (step,) = (line for line in lines[rule + 1 : lines.index("", rule)] if not line.startswith(" "))
    assert step.split()[0] == "bench"


@pytest.mark.parametrize(
    ("owners", "limits", "missing"),
    [
        ("* @acme/all\n", '{"small": {"most": 1}}', set()),
        (None, '{"small": {"most": 1}}', {"code owners"}),
        ("* @YOUR-ORG/all\n", '{"small": {"most": 1}}', {"code owners"}),
        ("* @acme/all\n/policy/config/\n", '{"small": {"most": 1}}', {"code owners"}),
        ("* @acme/all\n", '{"all": "disabled"}', {"policy limits"}),
        ("* @acme/all\n", '{"all": {"enforcementLevel": "advisory"}}', {"policy limits"}),
        ("* @acme/all\n", "{}", {"policy limits"}),
        ("* @acme/all\n", "", {"policy limits"}),
        ("* @acme/all\n", None, {"policy limits"}),
    ],
)
def test_who_reviews_what_judges_and_what_it_is_not_asked_is_checked(
    tmp_path: Path, owners: str | None, limits: str | None, missing: set[str]
) -> None:
    folder = project(tmp_path / "project", test=SMALL_STACK)
    for name, text in ((".github/CODEOWNERS", owners), ("policy/config/test.json", limits)):
        if text is not None:
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_text(text)
    if limits is None:
        (folder / "policy" / "config").mkdir(parents=True)
        (folder / "policy" / "config" / "other.json").write_text("{}")
    assert set(lacking(inspected(folder), "pull-requests")) == missing


def test_the_stack_to_begin_with_is_suggested(tmp_path: Path) -> None:
    mend = examined(tmp_path, path=str(tmp_path))["by_name"]["project id"]["write"]
    assert mend in (ROOT / "README.md").read_text()


LIVE_STACK = SMALL_STACK.replace("replicas: 1", "replicas: 12")


def test_a_missing_quota_decides_the_exit_code_and_is_shown_with_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path / "project", test=LIVE_STACK, other=LIVE_STACK.replace("mode: spot", "mode: spo"))
    low = FakeProject({f"{QUOTAS}/{B200}": quota(B200, limit(64))})
    session(low, monkeypatch)
    asked = ("doctor", "--for", "up", "--live", "--stack", "test", "--root", str(folder))
    done = fleet(*asked, path=str(tmp_path), HOME=str(tmp_path), **{VARIABLE: TOKEN})
    assert done.returncode == 1
    assert f"--quota-id={B200}" in done.stdout
    document = json.loads(
        fleet(*asked, "--format", "json", path=str(tmp_path), HOME=str(tmp_path), **{VARIABLE: TOKEN}).stdout
    )
    found = document["live"]
    assert (found["stack"], found["project"], found["region"], found["clean"]) == (
        "test",
        "fleet-tests",
        "europe-west4",
        False,
    )
    assert TOKEN not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [("--live", "--stack", "dev"), ("--for", "bench", "--live"), ("--for", "up", "--live")]
)
def test_live_goes_with_up_and_a_stack_that_may_be_brought_up(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = fleet("doctor", *arguments, path=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    done = fleet("doctor", "--for", "up", "--live", "--stack", "dev", path=str(tmp_path))
    assert done.returncode == 2
    assert "gcp:project" in done.stderr  # the placeholder


def _named(name: str, checks: tuple[Prerequisite, ...] | None = None) -> Finding:
    return next(one.finding for one in checks or inspected(ROOT) if one.finding.subject == name)


def lacking(checks: tuple[Prerequisite, ...], step: Step) -> list[str]:
    return [one.subject for one in needed_by(checks, step) if one.blocks]
