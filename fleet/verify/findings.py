"""What a check says: held, did not hold, could not be made, or is told for information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["passed", "failed", "not checked", "information"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What was paid for before: an id of a lesson in settings/rules/ or of a row of the ledger."""

    id: str
    text: str
    write: str = ""
    """What to write in the stack file, where that mends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is not as declared."""

    where: str
    """A pod, `endpoint`, or the name of an object."""
    name: str
    declared: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check with its outcome."""

    id: str
    title: str
    state: State
    summary: str
    """What was seen, or why nothing could be seen."""
    differences: tuple[Difference, ...] = ()
    lessons: tuple[Lesson, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of it."""

    project: str
    stack: str
    endpoint: str
    looked_at: str
    """What was looked at and through what, in words."""
    seconds: float
    checks: tuple[Check, ...]

    @property
    def outcome(self) -> Literal["passed", "failed", "not checked"]:
        """Of all checks together. One that could not be made is none that failed; where none passed either, nothing was checked."""
        if self.of("failed"):
            return "failed"
        return "passed" if self.of("passed") else "not checked"

    @property
    def passed(self) -> bool:
        """Whether something held and nothing failed."""
        return self.outcome == "passed"

    def of(self, state: State) -> tuple[Check, ...]:
        """The checks in this state."""
        return tuple(check for check in self.checks if check.state == state)

    @property
    def verdict(self) -> str:
        """One sentence: how many checks held, failed, and could not be made."""
        failed, unseen = len(self.of("failed")), len(self.of("not checked"))
        said = [f"{failed} failed"] if failed else []
        said.append(f"{len(self.of('passed'))} passed")
        return ", ".join([*said, *([f"{unseen} not checked"] if unseen else [])])
