"""A checkout and an environment for tests of what is installed: they see the packages of this environment, and not this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def copy_checkout(folder: Path) -> None:
    """Copy a commit's files, as a release has them: a build in place would leave its own behind."""
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, files)):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())


def make_environment(folder: Path, *install: str, cwd: Path) -> Path:
    """Python of a new environment in which pip, started in `cwd`, has installed this without dependencies."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, *install], check=True, env=os.environ | {"PYTHONPATH": ""}, cwd=cwd)
    (site,) = folder.glob("lib/python*/site-packages")
    # A .pth file that is itself found through one is not read: this checkout's own stays out.
    (site / "zz-installed-here.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return python


def run_installed(program: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of such an environment, where nothing leads to this checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PULUMI_STACK")}
    return subprocess.run(
        [str(program), *arguments],
        cwd=cwd,
        env=environment | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
