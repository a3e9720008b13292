"""What a rehearsal found out: checks that held or did not, figures, findings, and one result per drill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.rehearse.timeline import Moment, Mood


class RehearsalError(Exception):
    """What keeps a rehearsal from an answer, in words for a person: a build that fails, a port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about the stack itself that a real `pulumi up` would run into."""

    severity: Literal["error", "warning"]
    subject: str
    """URN of the resource, or `Kind/name`."""
    message: str
    """What would happen, with the value and the reason."""
    fix: str
    """What to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that a drill set out to prove."""

    statement: str
    """E.g. "never more than 96 GPUs at once"."""
    held: bool
    seen: str
    """What was seen, with its figure: "at most 96, at 312 s"."""
    empty: str = ""
    """Why it shows nothing on this stack: it could not have failed. Empty where it could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that a drill measured, in simulated time unless its unit says otherwise."""

    name: str
    value: float | int | str
    unit: str = ""
    note: str = ""
    about: str = ""
    """Heading that it shares with others: what a day cost, what users noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A number over simulated time, as steps."""

    name: str
    points: tuple[tuple[float, float], ...]
    """Simulated seconds and the value from then on; the last one holds until the end."""
    mood: Mood = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A drill's hours as one picture: curves that share a scale are drawn over each other, and below them what happened."""

    at_seconds: float
    until_seconds: float
    first_minute: float
    """Time of day at the beginning, in minutes from midnight."""
    curves: tuple[tuple[Curve, ...], ...]
    moments: tuple[Moment, ...]

    def clock(self, at_seconds: float) -> str:
        """A moment as a time of day: 08:00."""
        minute = int(self.first_minute + (at_seconds - self.at_seconds) / 60)
        return f"{minute // 60 % 24:02}:{minute % 60:02}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillResult:
    """How one drill went."""

    name: str
    """Its name on the command line."""
    title: str
    proves: str
    checks: tuple[Check, ...]
    figures: tuple[Figure, ...] = ()
    findings: tuple[Finding, ...] = ()
    moments: tuple[Moment, ...] = ()
    day: Day | None = None
    """Where a drill plays one: its picture comes first."""
    wall_seconds: float = 0.0
    simulated_seconds: float = 0.0
    gave_up: str = ""
    """Why the drill could not be played to its end; empty when it was."""
    skipped: str = ""
    """Why this drill has no meaning on this stack; empty when it has."""

    @property
    def passed(self) -> bool:
        """Every check held or is empty, nothing broke off, and no finding is an error. A skipped drill counts as passed."""
        if self.skipped:
            return True
        return not self.gave_up and all(one.held or one.empty for one in self.checks) and not self._broken

    @property
    def _broken(self) -> bool:
        return any(one.severity == "error" for one in self.findings)


class DrillBrokenOffError(Exception):
    """The drill cannot go on; the message says what it waited for and what was there instead."""
