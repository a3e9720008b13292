"""Runs `fleet` as a user does, in a folder, with an environment: in this process, which has imported what commands need.

What Python reads before its first line (its encoding, its path) takes a process of its own, and so does how a command starts and
ends: `test_start_up`, `test_errors`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from unittest import mock

from fleet.cli.main import main

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-c", "import sys; from fleet.cli.main import main; sys.exit(main())")
"""`fleet` as a process of its own."""
_READ_BY_PYTHON = ("PYTHON", "LC_", "LANG")


def fleet(
    *arguments: str, cwd: Path = ROOT, path: str | None = None, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What `fleet ARGUMENTS` printed and how it ended. Nothing of the tester's own logins and stacks reaches it.

    `timeout` is that of a process of its own, which takes a variable that Python reads.
    """
    hidden = ("PULUMI_", "GOOGLE_", "CLOUDSDK_", "FLEET_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "_FLEET")
    env = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    if path is not None:
        env["PATH"] = path
    env |= {"PYTHONPATH": str(ROOT), **environment}
    command = [*COMMAND, *arguments]
    if any(key.startswith(_READ_BY_PYTHON) for key in environment):
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdout", "stderr")]
        with contextlib.ExitStack() as stack:
            out, err = (
                stack.enter_context(file.open("w", encoding="utf-8", errors="backslashreplace")) for file in files
            )
            stack.enter_context(mock.patch.dict(os.environ, env, clear=True))
            stack.enter_context(mock.patch.multiple(sys, argv=["fleet", *arguments], stdout=out, stderr=err))
            stack.enter_context(mock.patch("os._exit", sys.exit))
            stack.enter_context(contextlib.chdir(cwd))
            stack.callback(gc.enable)  # a preview is over before it has to collect anything
            try:
                code = main()
            except SystemExit as stop:
                code = stop.code
            except Exception:
                traceback.print_exc()
                code = 1
        return subprocess.CompletedProcess(command, code or 0, *(file.read_text(encoding="utf-8") for file in files))


def project(folder: Path, **stacks: str) -> Path:
    """A project folder with these stack files and no program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Pulumi.yaml").write_text("name: vllm-fleet\nruntime: python\n")
    for name, text in stacks.items():
        (folder / f"Pulumi.{name}.yaml").write_text(text)
    return folder


def whole_project(folder: Path) -> Path:
    """The project with no stack of its own: a written one is previewed by the real program and the real policies."""
    for name in ("Pulumi.yaml", "Pulumi.README.md", "__main__.py", "infra", "workloads", "settings", "facts", "policy"):
        if name == "policy":
            # A written stack's limits go into it.
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / name).is_dir():
            (folder / name).symlink_to(ROOT / name)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


SMALL_STACK = """\
config:
  gcp:project: fleet-tests
  gcp:region: europe-west4
  vllm-fleet:zones: ["europe-west4-b"]
  vllm-fleet:capacity: {mode: spot}
  vllm-fleet:server: {profile: serve-chat, replicas: 1}
"""
