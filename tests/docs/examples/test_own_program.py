"""The program of docs/own-program.md beside a checkout, in an environment where pip installed the checkout in place."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.examples.recorded import EXAMPLES, configuration, recorded
from tests.support.installed import copy_checkout, make_environment, run_installed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("own program")]  # which share an environment

_RECORD = """
import json, pathlib, sys
from fleet.preview.record.recorder import record

recording = record(pathlib.Path(), project="support-bot", stack="example", config=json.loads(sys.argv[1]), mode="known")
print(json.dumps(sorted(recording.by_urn)))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "support-bot"
    shutil.copytree(EXAMPLES / "own_program", folder)
    copy_checkout(folder / "vllm-fleet")
    make_environment(folder / "venv", "-r", "requirements.txt", cwd=folder)
    return folder


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_installed(program / "venv" / "bin" / "python", *arguments, cwd=program)


@pytest.mark.parametrize("package", ["infra", "workloads", "settings", "facts"])
def test_the_packages_are_those_of_the_checkout_beside_the_program(program: Path, package: str) -> None:
    done = run(program, "-c", f"import {package}; print({package}.__file__)")
    assert done.stderr == ""
    assert Path(done.stdout.strip()).is_relative_to(program / "vllm-fleet")


def test_the_program_registers_there_what_it_registers_in_this_checkout(program: Path) -> None:
    done = run(program, "-c", _RECORD, json.dumps(configuration("own_program")))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == sorted(recorded("own_program").by_urn)
