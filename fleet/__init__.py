"""The toolbox: what looks at the program. Nothing of the program imports it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

CODE: Final = Path(__file__).resolve().parents[1]
"""Folder of this project's packages and program: a checkout, or what the installed package carries."""
IS_INSTALLED: Final = CODE.parent.name == "vllm_fleet"
"""Whether this is the installed package, outside of which nobody has the constraints or the Makefile."""


def program_folder(root: Path) -> Path:
    """Folder of a project's program and policy pack: its own, or ours where it has only stack files."""
    return root if (root / "__main__.py").is_file() else CODE
