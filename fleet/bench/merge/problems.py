"""Everything that keeps files from being merged, collected first and told at once."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleet.bench.errors import BenchmarkError

_FILES_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One file's fault."""

    file: str
    """Within the merged folder."""
    reason: str
    """One word for `--exclude reason:WORD`."""
    found: str
    """Key and value, or what happened."""
    allowed: str
    todo: str = ""
    """What to do besides leaving the file out."""
    can_exclude: bool = True
    """Whether leaving the file out would help."""

    @property
    def sentence(self) -> str:
        """Without the file and without the way out that all share."""
        return f"{self.found}; {self.allowed}" + (f"; {self.todo}" if self.todo else "")


def merge_command(folder: Path) -> str:
    """What takes --exclude and --allow-missing, whichever command read the folder."""
    return f"fleet bench merge {shlex.quote(str(folder))}"


def refuse(folder: Path, problems: Iterable[Problem], results: Collection[str] = ()) -> None:
    """Raise one BenchmarkError that names every problem; files with the very same one are told together.

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
    one = f"To leave files out by choice: {merge_command(folder)} --exclude {shlex.quote(able[0].file)}"
    if not results or not {problem.file for problem in able}.issuperset(results):
        reason = min(problem.reason for problem in able)
        return f"{one}, or all with one problem: --exclude reason:{reason}; merged.json then says so."
    if len(results) == 1:
        return "There is no other result: without it nothing is left to merge."
    return f"{one}; merged.json then says so. Every result has a problem, and one of them must remain."
