"""Everything that keeps files from being merged, collected first and told at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmark.errors import BenchmarkError

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


def refuse(folder: Path, problems: Iterable[Problem]) -> None:
    """Raise one BenchmarkError that names every problem; files with the very same one are told together."""
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
        reasons = sorted({problem.reason for problem in able})
        lines.append(
            f"To leave files out by choice: --exclude {able[0].file}, or all with one problem: --exclude reason:{reasons[0]}; "
            "merged.json then says so."
        )
    raise BenchmarkError("\n".join(lines))
