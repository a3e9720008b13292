"""Files that judge a change, start the judge or report its verdict, compared with a baseline's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from fleet import program_folder
from fleet.preview.compare.baseline import BaselineError
from fleet.preview.compare.baseline_git import run_git
from fleet.preview.judges import JudgeChange, Kind, Tree
from fleet.preview.policy_config import CONFIG_FOLDER, PACK_FOLDER

_NOT_CODE: Final = (f"{CONFIG_FOLDER}/", f"{PACK_FOLDER}/README.md")
_CACHES: Final = "__pycache__"
_PLACES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "pack": (
        PACK_FOLDER,
        "facts",
        # What git makes of these files, and what every interpreter of an editable installation runs first.
        ".gitattributes",
        "sitecustomize.py",
        "usercustomize.py",
    ),
    "workflow": (".github", "CODEOWNERS", "docs/CODEOWNERS"),
    "toolbox": ("fleet",),
    "packages": ("requirements*", "constraints.txt", "pyproject.toml", "Makefile"),
}
"""What judges a change, beside its limits: what the pack runs and reads, what starts it, and what reports its verdict."""


def changed_files(tree: Tree, root: Path) -> tuple[JudgeChange, ...]:
    """Those that differ. Limits are not among them: they are compared stack by stack."""
    folder = program_folder(root)
    if program_folder(tree.folder) == folder:
        return ()  # only stack files belong to the project
    # By git, whose index spares the reading of every file. A compiled file that is committed counts: Python runs it instead of
    # its source. One that is not committed is this machine's own.
    told = _names("diff", "--name-status", "--no-renames", "--relative", tree.commit, folder=folder)
    status = dict(zip(told[1::2], told[::2], strict=True))
    status |= {
        name: "A" for name in _names("ls-files", "--others", "--exclude-standard", folder=folder) if _CACHES not in name
    }
    return tuple(
        JudgeChange(kind=kind, subject=name, before=status[name] != "A", after=status[name] != "D")
        for kind, places in _PLACES.items()
        for name in sorted(status)
        if not name.startswith(_NOT_CODE) and any(_is_in(name, place) for place in places)
    )


def _is_in(name: str, place: str) -> bool:
    return name.startswith(f"{place}/") or fnmatchcase(name, place)


def _names(*command: str, folder: Path) -> list[str]:
    first, *others = command
    places = [place for several in _PLACES.values() for place in several]
    done = run_git(first, "-z", *others, "--", *places, root=folder)
    if done.returncode:
        raise BaselineError(f"git could not compare what judges: {os.fsdecode(done.stderr).strip()}")
    return os.fsdecode(done.stdout).split("\0")[:-1]


def judging_files(root: Path) -> Iterator[str]:
    """Every file that judges, and the stack files and limits that it judges by, sorted."""
    places = (*(place for several in _PLACES.values() for place in several), "Pulumi.*.yaml")
    starts = [start for place in places for start in root.glob(place)]
    inside = (Path(at, name) for start in starts for at, _, names in os.walk(start) for name in names)
    files = (path.relative_to(root).as_posix() for path in (*starts, *inside) if path.is_file())
    yield from sorted(name for name in files if _CACHES not in name)
