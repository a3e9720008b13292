"""Files that judge a change, start the judge or report its verdict, compared with a baseline's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from fleet import program_folder
from fleet.preview.compare.baseline_git import run_git
from fleet.preview.judges import JudgeChange, Kind, Tree
from fleet.preview.policy_config import CONFIG_FOLDER, PACK_FOLDER

_NOT_CODE: Final = (f"{CONFIG_FOLDER}/", f"{PACK_FOLDER}/README.md")
_CACHES: Final = "__pycache__"
_PLACES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "pack": (PACK_FOLDER, "facts", "settings/__init__.py", "settings/rules"),
    "workflow": (".github", "CODEOWNERS", "docs/CODEOWNERS"),
    "toolbox": ("fleet",),
    "packages": ("requirements*", "constraints.txt", "pyproject.toml", "Makefile"),
}
"""What judges a change, beside its limits: what the pack runs and reads, what starts it, and what reports its verdict."""


def changed_files(tree: Tree, root: Path) -> tuple[JudgeChange, ...]:
    """Those that differ. Limits are not among them: they are compared stack by stack."""
    before, after = program_folder(tree.folder), program_folder(root)
    if before == after:
        return ()  # only stack files belong to the project
    tracked = _tracked_caches(after)
    found: list[JudgeChange] = []
    for kind, places in _PLACES.items():
        old, new = (dict(_digests(folder, places)) for folder in (before, after))
        for name in sorted(old.keys() | new.keys()):
            own = _CACHES in name and name not in tracked
            if own or name.startswith(_NOT_CODE) or old.get(name) == new.get(name):
                continue
            found.append(JudgeChange(kind=kind, subject=name, before=name in old, after=name in new))
    return tuple(found)


def judging_files(root: Path) -> Iterator[str]:
    """Every file that judges, and the stack files and limits that it judges by, sorted."""
    places = (*(place for several in _PLACES.values() for place in several), "Pulumi.*.yaml")
    yield from sorted(name for name, _ in _digests(root, places) if _CACHES not in name)


def _digests(folder: Path, places: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Path and digest of every file in these places."""
    for place in places:
        for start in folder.glob(place):
            inside = (Path(at, name) for at, folders, names in os.walk(start) for name in (*folders, *names))
            for path in (start, *inside):
                name = path.relative_to(folder).as_posix()
                if path.is_file():
                    yield name, hashlib.sha256(path.read_bytes()).hexdigest()
                elif path.is_symlink():
                    yield name, f"in {folder}: what a link leads to is not compared"


def _tracked_caches(folder: Path) -> frozenset[str]:
    """Compiled files that are committed: Python runs them instead of their source."""
    listed = run_git("ls-files", "-z", "--", f"*{_CACHES}*", root=folder)
    return frozenset(os.fsdecode(listed.stdout).split("\0"))
