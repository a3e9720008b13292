"""The program of docs/own-program.md beside a checkout, in an environment where pip installed the checkout in place."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.examples.recorded import EXAMPLES
from tests.support.installed import copy_checkout, make_environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "support-bot"
    shutil.copytree(EXAMPLES / "own_program", folder)
    copy_checkout(folder / "vllm-fleet")
    make_environment(folder / "venv", "-r", "requirements.txt", cwd=folder)
    return folder


def run(program: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PULUMI_STACK")}
    executable = str(program / "venv" / "bin" / command[0])
    return subprocess.run(
        [executable, *command[1:]],
        cwd=program,
        env=environment | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.parametrize("package", ["infra", "workloads", "settings", "facts"])
def test_the_packages_are_those_of_the_checkout_beside_the_program(program: Path, package: str) -> None:
    done = run(program, "python", "-c", f"import {package}; print({package}.__file__)")
    assert done.stderr == ""
    assert Path(done.stdout.strip()).is_relative_to(program / "vllm-fleet")


def test_the_program_is_previewed_there_with_policies_and_price(program: Path) -> None:
    done = run(program, "fleet", "preview", "--stack", "example")
    assert (done.returncode, done.stderr) == (0, "")
    assert "support-bot / example" in done.stdout
    assert "an hour" in done.stdout
    assert "policies asked; policy/config/example.json" in " ".join(done.stdout.split())
