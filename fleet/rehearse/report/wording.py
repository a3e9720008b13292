"""Figures, times and verdicts as every report words them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from fleet.rehearse.results import DrillResult, Figure
from fleet.report.words import format_usd

if TYPE_CHECKING:
    from fleet.rehearse.report.model import RehearsalReport

State = Literal["passed", "failed", "skipped"]
MARKS: dict[State, str] = {"passed": "✓", "failed": "✗", "skipped": "–"}


def state_of(drill: DrillResult) -> State:
    """How a drill went."""
    if drill.skipped:
        return "skipped"
    return "passed" if drill.passed else "failed"


def why_failed(drill: DrillResult) -> str:
    """The first reason why a drill failed; nothing where it did not."""
    if drill.passed:
        return ""
    if drill.gave_up:
        return drill.gave_up
    for check in drill.checks:
        if not (check.held or check.empty):
            return f"{check.statement}: {check.seen}"
    return next(one.message for one in drill.findings if one.severity == "error")


def first_held(drill: DrillResult) -> str:
    """What a drill without figures showed: the first thing that held; nothing where there is none."""
    return next((one.statement for one in drill.checks if one.held and not one.empty), "")


def format_figure(figure: Figure) -> str:
    """`servers lost 4`, `whole again after 17.4 min`."""
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
    """What follows the value: `min`, `a month`; nothing where the sign says it or the value is text with its own."""
    if figure.unit.startswith("$/"):
        return "" if isinstance(figure.value, str) else f"a {figure.unit[2:]}"
    return "" if figure.unit in ("%", "$") else figure.unit


def simulated(seconds: float) -> str:
    """Simulated time as minutes: `0.5`, `14`, `135`."""
    minutes = seconds / 60
    return f"{minutes:.1f}" if minutes < 9.95 else f"{minutes:,.0f}"


def usd_per_month(amount: float | None) -> str:
    """`$12.40 a month`, `nothing`, or that it is not known."""
    if amount is None:
        return "price unknown"
    return f"{format_usd(amount)} a month" if amount else "nothing"


def format_left(report: RehearsalReport) -> str:
    """What all that outlives the stack costs: `$3.20 a month`, `at least $3.20 a month`, or that no price is known."""
    known = report.retained_usd_per_month
    if all(one.usd_per_month is not None for one in report.retained):
        return usd_per_month(known)
    return f"at least {usd_per_month(known)}" if known else usd_per_month(None)


def closing(report: RehearsalReport) -> Iterator[str]:
    """What holds for the whole rehearsal, and what it did not show."""
    if report.stop_code:
        yield f"It was stopped. The drills that had ended are kept; without a result: {', '.join(report.not_played)}."
    yield from report.remarks
    yield from report.limits
