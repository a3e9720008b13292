"""Words for the outcome of drills, shared by the report and the progress."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from lab.results.result import DrillResult

if TYPE_CHECKING:
    from lab.report.model import RehearsalReport

State = Literal["passed", "failed", "skipped"]
MARKS: dict[State, str] = {"passed": "✓", "failed": "✗", "skipped": "–"}


def state_of(drill: DrillResult) -> State:
    """The drill's outcome."""
    if drill.skipped:
        return "skipped"
    return "passed" if drill.passed else "failed"


def why_failed(drill: DrillResult) -> str:
    """The first reason why a drill failed; empty if it passed."""
    if drill.passed:
        return ""
    if drill.gave_up:
        return drill.gave_up
    for check in drill.checks:
        if check.blocks:
            return f"{check.subject}: {check.found}"
    return next(str(finding.found) for finding in drill.findings if finding.blocks)


def first_held(drill: DrillResult) -> str:
    """The first check that held; empty if there is none."""
    return next((check.subject for check in drill.checks if check.severity == "passed"), "")


def closing(report: RehearsalReport) -> Iterator[str]:
    """Sentences about the run and its limits."""
    if report.stop_code:
        yield f"The run was stopped. Drills without a result: {', '.join(report.not_played)}."
    yield from report.limits
