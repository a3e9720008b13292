"""Runs `fleet` as a user does: a process of its own, in a folder, with an environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def fleet(
    *arguments: str, cwd: Path = ROOT, path: str | None = None, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What `fleet ARGUMENTS` printed and how it ended. Nothing of the tester's own logins and stacks reaches it."""
    hidden = ("PULUMI_", "GOOGLE_", "CLOUDSDK_", "FLEET_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "_FLEET")
    env = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    if path is not None:
        env["PATH"] = path
    command = [sys.executable, "-c", "import sys; from fleet.cli.main import main; sys.exit(main())", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        env={**env, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def project(folder: Path, **stacks: str) -> Path:
    """A project folder with these stack files and no program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Pulumi.yaml").write_text("name: vllm-fleet\nruntime: python\n")
    for name, text in stacks.items():
        (folder / f"Pulumi.{name}.yaml").write_text(text)
    return folder


SMALL_STACK = """\
config:
  gcp:project: fleet-tests
  gcp:region: europe-west4
  vllm-fleet:zones: ["europe-west4-b"]
  vllm-fleet:capacity: {mode: spot}
  vllm-fleet:server: {profile: serve-chat, replicas: 1}
"""
