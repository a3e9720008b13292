"""A rehearsal as plain data: the source of the text, the JSON document and the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.texts import plural
from fleet.preview.record.redact import Redactor
from lab.results.result import DrillResult

if TYPE_CHECKING:
    from lab.results.result import Retained

LIMITS: Final = (
    "Real are Pulumi's engine and its Kubernetes provider, the policy pack, Helm, and Kubernetes' API server, controllers and "
    "scheduler. Google's API is simulated after Google's documents; nodes, disks and load balancers are objects with a status, "
    "written by kwok.",
    "No GPU and no vLLM ran, and nothing took the time that it takes at Google: a drill tells order and state, never minutes.",
    "Network policies are applied but not enforced: simulated nodes carry no traffic.",
)
"""Limits of every rehearsal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions of the programs."""

    pulumi: str
    """E.g. "v3.274.1"."""
    provider: str
    """Of the Kubernetes provider, e.g. "v4.24.0"."""
    wanted_provider: str
    """Of the installed SDK, e.g. "v4.34.2"."""
    kubernetes: str
    """E.g. "v1.36.3", reported by the API server."""
    kwok: str
    etcd: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A finding and the names of the drills that reported it."""

    finding: Finding
    drills: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Resources of one kind that remain after `pulumi destroy` for the same reason."""

    kind: str
    names: tuple[str, ...]
    why: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalReport:
    """One stack's rehearsal."""

    project: str
    stack: str
    versions: Versions
    wall_seconds: float
    drills: tuple[DrillResult, ...]
    retained: tuple[Retained, ...] = ()
    """What remains after `pulumi destroy`, where that drill was played."""
    not_played: tuple[str, ...] = ()
    """Names of the drills without a result when the run was stopped."""
    stop_code: int = 0
    """Exit code of a run stopped by Ctrl-C, SIGTERM or SIGHUP; otherwise 0."""

    @property
    def passed(self) -> bool:
        """Whether every drill was played and none failed."""
        return not self.stop_code and all(drill.passed for drill in self.drills)

    @property
    def failed_drills(self) -> tuple[DrillResult, ...]:
        """Drills with a failed check or an error finding, and aborted ones."""
        return tuple(drill for drill in self.drills if not drill.passed)

    @property
    def skipped_drills(self) -> tuple[DrillResult, ...]:
        """Drills that do not apply to this stack."""
        return tuple(drill for drill in self.drills if drill.skipped)

    @property
    def found(self) -> tuple[Found, ...]:
        """Each finding once, errors first, with the drills that reported it."""
        seen: dict[Finding, list[str]] = {}
        for drill in self.drills:
            for finding in drill.findings:
                names = seen.setdefault(finding, [])
                if drill.name not in names:
                    names.append(drill.name)
        ordered = sorted(seen, key=lambda one: one.severity != "error")
        return tuple(Found(finding=one, drills=tuple(seen[one])) for one in ordered)

    @property
    def limits(self) -> tuple[str, ...]:
        """Limits of this rehearsal."""
        versions = self.versions
        older = (
            f"The Kubernetes provider is {versions.provider}, the SDK's is {versions.wanted_provider}: docs/rehearsal.md says what "
            "differs."
        )
        return (*LIMITS, *((older,) if versions.provider != versions.wanted_provider else ()))

    def same_abort_as(self, drill: DrillResult) -> str:
        """Name of the first drill aborted for the same reason; empty where this drill is the first."""
        first = next((one for one in self.drills if one.gave_up == drill.gave_up), drill)
        return first.name if drill.gave_up and first is not drill else ""

    @property
    def left(self) -> tuple[Left, ...]:
        """What remains after `pulumi destroy`, grouped."""
        groups: dict[tuple[str, str, str], list[str]] = {}
        for one in self.retained:
            groups.setdefault((one.kind, one.why, one.note), []).append(one.name)
        return tuple(
            Left(kind=kind, names=tuple(names), why=why, note=note) for (kind, why, note), names in groups.items()
        )

    @property
    def verdict(self) -> str:
        """One line: numbers of drills passed, failed and skipped, and of findings."""
        played = len(self.drills) - len(self.skipped_drills)
        failed = len(self.failed_drills)
        if not self.drills:
            parts = ["no drill was played"]
        elif failed:
            parts = [f"{failed} of {plural(played, 'drill')} failed"]
        elif played:
            parts = [f"{plural(played, 'drill')} passed"]
        else:
            parts = ["No drill applies to this stack"]
        if self.skipped_drills:
            parts.append(f"{len(self.skipped_drills)} skipped")
        severities = [one.finding.severity for one in self.found]
        parts += [plural(severities.count(one), one) for one in ("error", "warning") if one in severities]
        if self.stop_code:
            parts.insert(0, f"stopped with {plural(len(self.not_played), 'drill')} not played")
        return ", ".join(parts)


def redacted(report: RehearsalReport, secrets: Iterable[str]) -> RehearsalReport:
    """The report without these plaintexts: messages of the API server may quote them."""
    return Redactor(secrets).whole(report)
