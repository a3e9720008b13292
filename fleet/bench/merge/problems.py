"""Problems of files that cannot be merged, collected and reported together."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.bench.errors import BenchmarkError

_FILES_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One file's problem."""

    file: str
    """Within the merged folder."""
    reason: str
    """One word for `--exclude reason:WORD`."""
    found: str
    """Key and value, or what happened."""
    allowed: str
    todo: str = ""
    """What to do other than excluding the file."""
    can_exclude: bool = True
    """Whether excluding the file helps."""

    @property
    def sentence(self) -> str:
        """The problem without the file's name."""
        return f"{self.found}; expected: {self.allowed}" + (f"; {self.todo}" if self.todo else "")


def merge_command(folder: Path) -> str:
    """The command that has --exclude and --allow-missing."""
    return f"fleet bench merge {shlex.quote(str(folder))}"


def refuse(folder: Path, problems: Iterable[Problem], results: Collection[str] = ()) -> None:
    """Raise one BenchmarkError that names every problem; files with the same one share a line.

    `results`: all clients' results, as problems name them; to leave out all of them is not proposed.
    """
    by_sentence: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        by_sentence.setdefault((problem.reason, problem.sentence), []).append(problem)
    if not by_sentence:
        return
    count = sum(len(group) for group in by_sentence.values())
    lines = [f"{folder} cannot be merged: {count} problem{'s' if count > 1 else ''}"]
    for (reason, sentence), group in by_sentence.items():
        files = [problem.file for problem in group]
        shown = ", ".join(files[:_FILES_SHOWN]) + (
            f" and {len(files) - _FILES_SHOWN} more" if len(files) > _FILES_SHOWN else ""
        )
        lines.append(f"  {shown}: {sentence} [{reason}]")
    able = [problem for group in by_sentence.values() for problem in group if problem.can_exclude]
    if able:
        lines.append(_way_out(folder, able, results))
    raise BenchmarkError("\n".join(lines))


def _way_out(folder: Path, able: Sequence[Problem], results: Collection[str]) -> str:
    one = f"To exclude files: {merge_command(folder)} --exclude {shlex.quote(able[0].file)}"
    if not results or not {problem.file for problem in able}.issuperset(results):
        reason = min(problem.reason for problem in able)
        return f"{one}, or all with one problem: --exclude reason:{reason}; merged.json lists them."
    if len(results) == 1:
        return "It is the only result and cannot be excluded."
    return f"{one}; merged.json lists them. Every result has a problem, and one must remain."
