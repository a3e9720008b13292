"""Check results: passed, failed, not checked, information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["passed", "failed", "not checked", "information"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A known lesson: the id of a rule in facts/lessons/ or of a row in facts/data."""

    id: str
    text: str
    write: str = ""
    """Fix for the stack file, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference between declared and found."""

    where: str
    """A pod, `endpoint`, or an object's name."""
    name: str
    declared: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check with its result."""

    id: str
    title: str
    state: State
    summary: str
    """The finding, or why the check could not run."""
    differences: tuple[Difference, ...] = ()
    lessons: tuple[Lesson, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of it."""

    project: str
    stack: str
    endpoint: str
    looked_at: str
    """What was checked and how it was reached."""
    seconds: float
    checks: tuple[Check, ...]

    @property
    def outcome(self) -> Literal["passed", "failed", "not checked"]:
        """Overall state. Checks that did not run are not failures; without any passed check, nothing was checked."""
        if self.of("failed"):
            return "failed"
        return "passed" if self.of("passed") else "not checked"

    @property
    def passed(self) -> bool:
        """Whether at least one check passed and none failed."""
        return self.outcome == "passed"

    def of(self, state: State) -> tuple[Check, ...]:
        """The checks in this state."""
        return tuple(check for check in self.checks if check.state == state)

    @property
    def verdict(self) -> str:
        """Counts of failed, passed and unchecked."""
        failed, unseen = len(self.of("failed")), len(self.of("not checked"))
        said = [f"{failed} failed"] if failed else []
        said.append(f"{len(self.of('passed'))} passed")
        return ", ".join([*said, *([f"{unseen} not checked"] if unseen else [])])
