"""Stand-in programs: small scripts that a test puts on the PATH in place of kubectl, pulumi or gcloud."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def stand_in(folder: Path, name: str, script: str) -> Path:
    """A program of this name in a folder, run by this Python. The folder goes in front of the PATH, or is all of it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable}\n{script}", encoding="utf-8")
    program.chmod(0o755)
    return program


def in_front(folder: Path) -> str:
    """PATH with this folder first."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
