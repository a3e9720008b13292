"""What `--against` names: the program of a git reference, or an exported state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleet.preview.compare.baseline import RunningBaseline


def start(against: str, root: Path, stacks: Sequence[str]) -> RunningBaseline:
    """Begin to fetch what `against` names for these stacks: an exported state if it is a file, else a git reference.

    Returns at once for a git reference: its program is recorded by a process of its own while this one goes on.
    Raises BaselineError for what is neither.
    """
    if is_state(against):
        from fleet.preview.compare.baseline_state import StateFile

        return StateFile(Path(against), stacks)
    from fleet.preview.compare.baseline_git import GitBaseline

    return GitBaseline(against, root, stacks)


def is_state(against: str) -> bool:
    """Whether this names a file rather than a git reference; `.json` is taken for a file that is missing."""
    return against.endswith(".json") or Path(against).is_file()
