"""Runs `fleet` as a user does: a process of its own, in a folder, with an environment.

The process is forked from one that has read what every command needs: starting Python and importing is most of what a short
command takes, and the suite runs hundreds. What Python reads before its first line (its encoding, its path) comes from a process
that is really started.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path

ROOT = Path(__file__).parents[3]
_COMMAND = (sys.executable, "-c", "import sys; from fleet.cli.main import main; sys.exit(main())")
_PRELOADED = [
    "rich.console",
    "fleet.cli.app",
    "settings.stack",
    "fleet.preview.record.recorder",
    "fleet.preview.stack_preview",
    "fleet.preview.compare.compare",
    "fleet.preview.report.text",
    "fleet.plan.planning",
    "fleet.verify.verification",
    "fleet.rollout.steps",
    "fleet.bench.merge.measure",
    "fleet.bench.report.write",
]
"""What commands load after their start, without the SDKs, which each preview loads in its own way."""
_READ_BY_PYTHON = ("PYTHON", "LC_", "LANG")


def fleet(
    *arguments: str, cwd: Path = ROOT, path: str | None = None, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What `fleet ARGUMENTS` printed and how it ended. Nothing of the tester's own logins and stacks reaches it."""
    hidden = ("PULUMI_", "GOOGLE_", "CLOUDSDK_", "FLEET_", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "_FLEET")
    env = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    if path is not None:
        env["PATH"] = path
    env |= {"PYTHONPATH": str(ROOT), **environment}
    if any(key.startswith(_READ_BY_PYTHON) for key in environment):
        return subprocess.run(
            [*_COMMAND, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )
    with tempfile.TemporaryDirectory() as folder:
        streams = (f"{folder}/stdout", f"{folder}/stderr")
        process = _prepared().Process(target=_run, args=(arguments, str(cwd), env, streams))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([*_COMMAND, *arguments], timeout)
        return subprocess.CompletedProcess(
            [*_COMMAND, *arguments], process.exitcode, *(Path(one).read_text(encoding="utf-8") for one in streams)
        )


@cache
def _prepared() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def _run(arguments: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[str]) -> None:
    """In the forked process: what its own start would have set."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, name in enumerate(streams, start=1):
        file = os.open(name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115
    sys.argv = ["fleet", *arguments]
    installed = [one for one in sys.path if Path(one).is_relative_to(sys.prefix) or not Path(one).is_relative_to(ROOT)]
    sys.path[:] = [str(ROOT), *(one for one in installed if one)]
    from fleet.cli.main import main

    sys.exit(main())


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
