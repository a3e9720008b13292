"""Formatting of figures, times and verdicts, shared by all reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from fleet.report.words import format_usd
from lab.results.result import DrillResult, Figure

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


def format_figure(figure: Figure) -> str:
    """`replicas lost 4`, `all Ready again after 17.4 min`."""
    return f"{figure.name} {format_value(figure)}"


def format_value(figure: Figure) -> str:
    """The value with its unit: `17.4 min`, `84%`, `$12.40 a month`."""
    return f"{format_number(figure)} {format_unit(figure)}".rstrip()


def format_number(figure: Figure) -> str:
    """The value; dollars and percent with their sign."""
    if isinstance(figure.value, str):
        return figure.value
    if figure.unit.startswith("$"):
        return format_usd(figure.value)
    return f"{figure.value:,}%" if figure.unit == "%" else f"{figure.value:,}"


def format_unit(figure: Figure) -> str:
    """What follows the value: `min`, `a month`; empty for signs and text values."""
    if figure.unit.startswith("$/"):
        return "" if isinstance(figure.value, str) else f"a {figure.unit[2:]}"
    return "" if figure.unit in ("%", "$") else figure.unit


def format_simulated(seconds: float) -> str:
    """Simulated time in seconds below two minutes, else in minutes: `30 s`, `2.5 min`, `135 min`."""
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.1f} min" if minutes < 99.95 else f"{minutes:,.0f} min"


def usd_per_month(amount: float | None) -> str:
    """`$12.40 a month`, `free` or `price unknown`."""
    if amount is None:
        return "price unknown"
    return f"{format_usd(amount)} a month" if amount else "free"


def format_left(report: RehearsalReport) -> str:
    """Cost of what remains after `pulumi destroy`: `$3.20 a month`, `at least $3.20 a month` or `price unknown`."""
    known = report.retained_usd_per_month
    if all(one.usd_per_month is not None for one in report.retained):
        return usd_per_month(known)
    return f"at least {usd_per_month(known)}" if known else usd_per_month(None)


def closing(report: RehearsalReport) -> Iterator[str]:
    """Sentences about the run and its limits."""
    if report.stop_code:
        yield f"The run was stopped. Drills without a result: {', '.join(report.not_played)}."
    yield from report.limits
