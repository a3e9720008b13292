"""The built wheel, installed where nothing of this repository is on the path."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.installed import copy_checkout, make_environment, run_installed
from tests.workflows.steps import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    copy_checkout(source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, check=True, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path) -> Path:
    """An environment with the wheel, which sees the packages that are installed here, but no checkout."""
    return make_environment(wheel.parent / "environment", "--no-index", str(wheel), cwd=wheel.parent)


def fleet(python: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_installed(python.with_name("fleet"), *arguments, cwd=cwd)


def test_the_wheel_takes_one_name(wheel: Path) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert names == {"vllm_fleet", "vllm_fleet-0.1.0.dist-info"}


@pytest.mark.parametrize(
    "arguments",
    ["--version", "plan --users 16000", "models", "prices", "config schema"],
)
def test_a_command_that_needs_no_project_runs_in_an_empty_folder(python: Path, tmp_path: Path, arguments: str) -> None:
    done = fleet(python, tmp_path, *arguments.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", ["plan --users 16000 --write chat", "preview"])
def test_a_command_that_needs_a_project_names_the_file_that_is_missing(
    python: Path, tmp_path: Path, arguments: str
) -> None:
    done = fleet(python, tmp_path, *arguments.split())
    assert done.returncode == 2
    assert "Pulumi.yaml" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_of_stack_files_is_previewed_with_the_carried_program_and_pack(python: Path, tmp_path: Path) -> None:
    for name in ("Pulumi.yaml", "Pulumi.smoke.yaml", "policy/config/smoke.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    done = fleet(python, tmp_path, "preview", "--stack", "smoke", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    here = subprocess.run(
        [sys.executable, "-m", "fleet.cli.main", "preview", "--stack", "smoke", "--format", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == here.stdout
