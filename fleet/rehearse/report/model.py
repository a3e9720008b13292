"""A whole rehearsal as plain data: one value that the text, the JSON document and the page are all made from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.preview.record.redact import Redactor
from fleet.rehearse.results import DrillResult, Figure, Finding
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.rehearse.apply.inventory import Retained

LIMITS: Final = (
    "No GPU, no vLLM and no Google Cloud took part. Kubernetes' API server, controllers and scheduler are real; machines, disks, "
    "Spot notices, stock and the load balancer are played, from what Google documents.",
    "Times in simulated minutes follow from figures for each step, such as six minutes for a machine; they are no measurement.",
    "Network policies are applied, but simulated machines carry no packets: nothing enforces them here.",
    "Requests go to stand-ins on this machine that keep the record's times, or the planner's where the stack names another "
    "machine, and compute nothing.",
)
"""What a rehearsal cannot show, in every report."""

ADVICE_FROM_CHARACTERS: Final = 60
"""A figure whose value is text as long as this is a sentence to read, not a number for a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What the stack ran on."""

    kubernetes: str
    """E.g. "v1.36.3", as the API server says it."""
    kwok: str
    etcd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One step of a bring-up."""

    name: str
    wall_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How long this machine took to bring up a fleet of that size."""

    nodes: int
    phases: tuple[Phase, ...]
    goal_seconds: float | None = None
    """Wall seconds it shall stay within; None where there is no goal."""

    @property
    def wall_seconds(self) -> float:
        """All phases."""
        return sum(one.wall_seconds for one in self.phases)

    @property
    def within_goal(self) -> bool:
        """Whether it stayed within its goal; True where there is none."""
        return self.goal_seconds is None or self.wall_seconds <= self.goal_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A finding and the drills that came upon it."""

    finding: Finding
    drills: tuple[str, ...]
    """Names of drills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What outlives the stack for one reason at one price: a single thing, or several of a kind on one line."""

    kind: str
    names: tuple[str, ...]
    why: str
    usd_per_month: float | None
    """Of all together; None where it is not known."""
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalReport:
    """One stack's rehearsal."""

    project: str
    stack: str
    versions: Versions
    speed: float
    """Simulated seconds in a second of wall time."""
    wall_seconds: float
    drills: tuple[DrillResult, ...]
    scales: tuple[Scale, ...] = ()
    retained: tuple[Retained, ...] = ()
    """What outlives `pulumi destroy`, where that was rehearsed."""
    remarks: tuple[str, ...] = ()
    """What else the reader should know about this run: drills that were not asked for."""

    not_played: tuple[str, ...] = ()
    """Names of the drills that had not ended when the run was stopped."""
    stop_code: int = 0
    """Exit code of a run that was stopped by Ctrl-C, SIGTERM or SIGHUP; 0 where it went to its end."""

    @property
    def passed(self) -> bool:
        """Every drill was played and none failed; a finding that is an error fails its drill."""
        return not self.stop_code and all(one.passed for one in self.drills)

    @property
    def failed_drills(self) -> tuple[DrillResult, ...]:
        """Drills in which a check did not hold, that broke off, or that found an error."""
        return tuple(one for one in self.drills if not one.passed)

    @property
    def skipped_drills(self) -> tuple[DrillResult, ...]:
        """Drills without a meaning on this stack."""
        return tuple(one for one in self.drills if one.skipped)

    @property
    def found(self) -> tuple[Found, ...]:
        """Every finding once, errors first, with the drills that came upon it."""
        seen: dict[Finding, list[str]] = {}
        for drill in self.drills:
            for one in drill.findings:
                names = seen.setdefault(one, [])
                if drill.name not in names:
                    names.append(drill.name)
        ordered = sorted(seen, key=lambda one: one.severity != "error")
        return tuple(Found(finding=one, drills=tuple(seen[one])) for one in ordered)

    @property
    def limits(self) -> tuple[str, ...]:
        """What this rehearsal cannot show."""
        controllers = (
            f"Kubernetes' own controllers know nothing of the simulated clock: a second of theirs reads as {self.speed:g}, "
            "and more on a busy machine. A lower --speed makes figures truer."
        )
        return (*LIMITS[:2], controllers, *LIMITS[2:])

    def broke_off_like(self, drill: DrillResult) -> str:
        """Name of the first drill that broke off for the very reason this one gives; nothing where this one is the first."""
        first = next((one for one in self.drills if one.gave_up == drill.gave_up), drill)
        return first.name if drill.gave_up and first is not drill else ""

    @property
    def left(self) -> tuple[Left, ...]:
        """What outlives the stack, as lines: what costs money or may cost it first, then what costs nothing; several of a kind
        that are left for the same reason at the same price share a line.
        """
        groups: dict[tuple[str, str, str, float | None], list[str]] = {}
        for one in self.retained:
            groups.setdefault((one.kind, one.why, one.note, one.usd_per_month), []).append(one.name)
        lines = [
            Left(
                kind=kind,
                names=tuple(names),
                why=why,
                usd_per_month=None if price is None else price * len(names),
                note=note,
            )
            for (kind, why, note, price), names in groups.items()
        ]
        return tuple(sorted(lines, key=lambda line: line.usd_per_month == 0))

    @property
    def retained_usd_per_month(self) -> float:
        """What is known of the monthly cost of what outlives the stack."""
        return sum(one.usd_per_month or 0.0 for one in self.retained)

    @property
    def verdict(self) -> str:
        """One line: how many drills passed, failed and were left out, and how many findings there are."""
        played = len(self.drills) - len(self.skipped_drills)
        failed = len(self.failed_drills)
        if not self.drills:
            parts = ["no drill was played"]
        elif failed:
            parts = [f"{failed} of {plural(played, 'drill')} failed"]
        elif played:
            parts = [f"{plural(played, 'drill')} passed"]
        else:
            parts = ["no drill has a meaning on this stack"]
        if self.skipped_drills:
            parts.append(f"{len(self.skipped_drills)} skipped")
        severities = [one.finding.severity for one in self.found]
        parts += [plural(severities.count(one), one) for one in ("error", "warning") if one in severities]
        if self.stop_code:
            parts.insert(0, f"stopped before {plural(len(self.not_played), 'drill')} had ended")
        return ", ".join(parts)


def is_advice(figure: Figure) -> bool:
    """Whether a figure is a sentence for the reader."""
    return isinstance(figure.value, str) and len(figure.value) >= ADVICE_FROM_CHARACTERS


def advice(drills: Iterable[DrillResult]) -> tuple[Figure, ...]:
    """Every sentence for the reader once."""
    return tuple({(one.name, one.value): one for drill in drills for one in drill.figures if is_advice(one)}.values())


def redacted(report: RehearsalReport, secrets: Iterable[str]) -> RehearsalReport:
    """The report without these plaintexts, wherever in it they might be: messages of the API server quote what they refuse."""
    return Redactor(secrets).whole(report)
