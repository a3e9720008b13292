"""Resolves `--against`: the program at a git reference, or an exported state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.preview.compare.baseline_git import GitBaseline
from fleet.preview.compare.baseline_state import StateFile

if TYPE_CHECKING:
    from fleet.preview.compare.baseline import RunningBaseline


def start(against: str, root: Path, stacks: Sequence[str]) -> RunningBaseline:
    """Start loading the baseline for these stacks: an exported state if `against` is a file, else a git reference.

    Returns immediately for a git reference, whose program is recorded in a separate process.
    Raises BaselineError for anything else.
    """
    if is_state(against):
        return StateFile(Path(against), stacks)

    return GitBaseline(against, root, stacks)


def is_state(against: str) -> bool:
    """Whether `against` is a file rather than a git reference; a missing `.json` counts as a file."""
    return against.endswith(".json") or Path(against).is_file()
