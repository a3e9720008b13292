"""Results of a rehearsal: checks, figures and findings, per drill."""

from __future__ import annotations

from dataclasses import dataclass

from facts.finding import Finding, block
from facts.user_error import UserError


class RehearsalError(UserError):
    """A rehearsal cannot be played, for example because a build fails; the message is for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that a drill has counted."""

    name: str
    value: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillResult:
    """Result of one drill."""

    name: str
    title: str
    proves: str
    checks: tuple[Finding, ...]
    """One for each expectation: `passed`, `error`, or `note` where it could not have failed on this stack."""
    figures: tuple[Figure, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Defects of the stack that a real `pulumi up` would hit. The subject is a resource's URN or `Kind/name`."""
    wall_seconds: float = 0.0
    gave_up: str = ""
    """Why the drill was aborted; empty if it was not."""
    skipped: str = ""
    """Why the drill does not apply to this stack; empty if it was played."""

    @property
    def passed(self) -> bool:
        """Whether it was skipped, or every check held, it was not aborted, and no finding is an error."""
        if self.skipped:
            return True
        return not self.gave_up and not block((*self.checks, *self.findings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """A resource that the program retains after a destroy."""

    kind: str
    name: str
    why: str
    note: str = ""


class DrillBrokenOffError(Exception):
    """The drill cannot continue; the message tells what it waited for and what it found instead."""
