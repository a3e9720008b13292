"""Files that judge a change: what code owners must cover."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleet.preview.policy_config import PACK_FOLDER

_CACHES: Final = "__pycache__"
_PLACES: Final = (
    # What the pack runs and reads, what git makes of it, and what every interpreter of an editable installation runs first.
    *(PACK_FOLDER, "facts", ".gitattributes", "sitecustomize.py", "usercustomize.py"),
    # What starts it, reports its verdict, and installs both.
    *(".github", "CODEOWNERS", "docs/CODEOWNERS", "fleet"),
    *("requirements*", "constraints.txt", "pyproject.toml", "Makefile"),
    # What it judges by.
    "Pulumi.*.yaml",
)


def judging_files(root: Path) -> Iterator[str]:
    """Every file that judges, and the stack files and limits that it judges by, sorted."""
    starts = [start for place in _PLACES for start in root.glob(place)]
    inside = (Path(at, name) for start in starts for at, _, names in os.walk(start) for name in names)
    files = (path.relative_to(root).as_posix() for path in (*starts, *inside) if path.is_file())
    yield from sorted(name for name in files if _CACHES not in name)
