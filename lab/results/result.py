"""Results of a rehearsal: checks, figures and findings, per drill."""

from __future__ import annotations

from dataclasses import dataclass

from facts.finding import Finding, block
from facts.user_error import UserError
from lab.results.timeline import Moment, Mood


class RehearsalError(UserError):
    """A rehearsal cannot be played, for example because a build fails; the message is for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number measured by a drill, in simulated time unless its unit says otherwise."""

    name: str
    value: float | int | str
    unit: str = ""
    note: str = ""
    about: str = ""
    """Heading that groups figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A number over simulated time, as steps."""

    name: str
    points: tuple[tuple[float, float], ...]
    """Simulated seconds and the value from then on."""
    mood: Mood = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A drill's hours as one picture: groups of curves, each with a shared scale, and moments below."""

    at_seconds: float
    until_seconds: float
    first_minute: float
    """Time of day at the start, in minutes from midnight."""
    curves: tuple[tuple[Curve, ...], ...]
    moments: tuple[Moment, ...]

    def clock(self, at_seconds: float) -> str:
        """Time of day, e.g. 08:00."""
        minute = int(self.first_minute + (at_seconds - self.at_seconds) / 60)
        return f"{minute // 60 % 24:02}:{minute % 60:02}"


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
    moments: tuple[Moment, ...] = ()
    day: Day | None = None
    wall_seconds: float = 0.0
    simulated_seconds: float = 0.0
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
    usd_per_month: float | None
    """None if no dated price is known."""
    note: str = ""


class DrillBrokenOffError(Exception):
    """The drill cannot continue; the message tells what it waited for and what it found instead."""
