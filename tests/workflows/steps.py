"""Reads .github as data, and runs a job's `run:` steps as GitHub's runner would, with stand-ins for what is outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"
ACTION = ROOT / ".github" / "actions" / "cloud" / "action.yml"

SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""What `shell: bash` means. Source: GitHub's workflow syntax, jobs.<id>.steps[*].shell."""

ATTEMPTS = ["up", "resume", "resume-again"]
"""Jobs of up-stack.yml that run `pulumi up`, in order."""


needs_jq = pytest.mark.skipif(
    not os.environ.get("CI") and shutil.which("jq") is None, reason="jq is not installed (apt-get install jq)"
)


def read(path: Path) -> dict[str, Any]:
    """A workflow or action. `on` is a word here, not YAML 1.1's true."""
    document = yaml.safe_load(path.read_text())
    assert isinstance(document, dict)
    return {("on" if key is True else key): value for key, value in document.items()}


def workflow(name: str) -> dict[str, Any]:
    return read(WORKFLOWS / f"{name}.yml")


def workflows() -> dict[str, dict[str, Any]]:
    return {path.stem: read(path) for path in sorted(WORKFLOWS.glob("*.yml"))}


def step(name: str, job: str, title: str) -> dict[str, Any]:
    (found,) = (one for one in workflow(name)["jobs"][job]["steps"] if one.get("name") == title)
    assert isinstance(found, dict)
    return found


def run(
    script: str, *, cwd: Path, environment: Mapping[str, str], path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a step's commands in `cwd`, with the programs in `path` before all others."""
    base = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8"} | environment
    if path is not None:
        base["PATH"] = f"{path}:{base['PATH']}"
    return subprocess.run(
        [*SHELL, "-c", script], cwd=cwd, env=base, capture_output=True, text=True, check=False, timeout=300
    )


def stand_in(path: Path, name: str, script: str) -> None:
    """A program called `name`, in the folder `path`."""
    path.mkdir(exist_ok=True)
    program = path / name
    program.write_text(f"#!/usr/bin/env bash\nset -euo pipefail\n{script}")
    program.chmod(0o755)


def outputs(file: Path) -> dict[str, str]:
    """What steps wrote to their GITHUB_OUTPUT."""
    return dict(line.split("=", 1) for line in file.read_text().splitlines()) if file.exists() else {}


UP_MINUTES = int(step("up-stack", "up", "Update")["env"]["MINUTES"])
"""How long one attempt lets `pulumi up` run."""
