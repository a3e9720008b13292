"""release.yml: which tags become a release, and what its notes are."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.workflows.steps import ROOT, run, step, workflow

CHANGELOG = """# Changelog

## 0.3.0, unreleased

- Not yet.

## 0.2.0, 2026-11-22

- New.

## 0.1.0, 2026-10-01

- Old.
"""
VERSION = step("release", "build", "Version")["run"]


def release(folder: Path, tag: str, version: str = "0.2.0", *, on_main: bool = True) -> tuple[int, str, str]:
    """Exit code, what was printed, and the notes."""
    (folder / "pyproject.toml").write_text(f'[project]\nname = "x"\nversion = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    for command in (
        ("init", "--quiet"),
        (*who, "commit", "--quiet", "--allow-empty", "--message", "A"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
        *(() if on_main else ((*who, "commit", "--quiet", "--allow-empty", "--message", "B"),)),
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)
    done = run(VERSION, cwd=folder, environment={"GITHUB_REF_NAME": tag})
    notes = folder / "out" / "notes" / "notes.md"
    return done.returncode, done.stdout, notes.read_text() if notes.exists() else ""


def test_the_notes_are_the_section_of_the_version(tmp_path: Path) -> None:
    assert release(tmp_path, "v0.2.0") == (0, "", "## 0.2.0, 2026-11-22\n\n- New.\n\n")


@pytest.mark.parametrize(
    ("tag", "version", "on_main", "file"),
    [
        ("v0.2.0", "0.2.1", True, "pyproject.toml"),
        ("v0.2", "0.2", True, "CHANGELOG.md"),
        ("v0.3.0", "0.3.0", True, "CHANGELOG.md"),
        ("v0.4.0", "0.4.0", True, "CHANGELOG.md"),
        ("v0.2.0", "0.2.0", False, "main"),
    ],
)
def test_a_tag_that_differs_from_the_tree_is_refused(
    tmp_path: Path, tag: str, version: str, on_main: bool, file: str
) -> None:
    code, printed, _ = release(tmp_path, tag, version, on_main=on_main)
    assert code == 1
    assert printed.startswith("::error")
    assert file in printed


def test_nothing_is_published_before_it_was_tested_and_attested() -> None:
    jobs = workflow("release")["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None,
        "attest": "build",
        "github": "attest",
        "pypi": "attest",
    }
    names = [one.get("name") for one in jobs["build"]["steps"]]
    assert names.index("Version") < names.index("Test") < names.index("Build")
    assert jobs["pypi"]["environment"] == {"name": "pypi"}


def test_every_declared_python_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {found[1] for one in project["classifiers"] if (found := re.fullmatch(r".*:: Python :: (3\.\d+)", one))}
    (oldest,) = (
        step["with"]["python-version"]
        for step in workflow("ci")["jobs"]["checks"]["steps"]
        if "setup-python" in step.get("uses", "")
    )
    assert {oldest, *workflow("ci")["jobs"]["pythons"]["strategy"]["matrix"]["python"]} == declared


def test_newer_pythons_run_the_fast_tests_of_the_lab_too() -> None:
    (run,) = (one["run"] for one in workflow("ci")["jobs"]["pythons"]["steps"] if one.get("name") == "Tests")
    assert {"test", "test-lab"} <= set(run.split())


def test_every_folder_with_pins_has_updates() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    folders = {one["package-ecosystem"]: one["directories"] for one in updates}
    modules = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "lab").rglob("go.mod")}
    assert modules
    assert all(any(Path(f"/{module}").match(pattern) for pattern in folders["gomod"]) for module in modules)
