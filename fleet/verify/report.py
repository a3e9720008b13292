"""The report for the terminal and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from fleet.report.terminal import Page
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.report.terminal import Paper
    from fleet.verify.findings import Check, Report, State

_MARKS: Final[dict[State, str]] = {"passed": "✓", "failed": "✗", "not checked": "–", "information": "·"}
_STYLES: Final[dict[State, str]] = {
    "passed": "green",
    "failed": "bold red",
    "not checked": "yellow",
    "information": "dim",
}
SHOWN_DIFFERENCES: Final = 8
"""Maximum lines per check; the JSON document has all."""


def print_text(paper: Paper, report: Report) -> None:
    """Print the report, with declared, found and lesson for failed checks."""
    page = Page(paper)
    page.heading(f"{report.project} / {report.stack}", "verify")
    page.prose(" · ".join(one for one in (report.endpoint, report.looked_at) if one), indent=0, style="dim")
    page.blank()
    page.prose(
        f"{report.verdict} · {report.seconds:.0f} s",
        indent=0,
        mark=f"{_MARKS[report.outcome]} ",
        style=_STYLES[report.outcome],
        mark_style=_STYLES[report.outcome],
    )
    page.blank()
    for check in report.checks:
        _check(page, check)
    page.print()


def _check(page: Page, check: Check) -> None:
    said = f"not checked: {check.summary}" if check.state == "not checked" else check.summary
    page.prose(f"{check.title}: {said}", mark=f"{_MARKS[check.state]} ", mark_style=_STYLES[check.state])
    for one in check.differences[:SHOWN_DIFFERENCES]:
        page.prose(f"{one.where}: {one.name}: declared {one.declared}, found {one.found}", indent=6)
    if (more := len(check.differences) - SHOWN_DIFFERENCES) > 0:
        page.prose(f"and {plural(more, 'difference')} more; --format json has them all", indent=6, style="dim")
    for lesson in check.lessons:
        page.prose(f"lesson {lesson.id}: {lesson.text}", indent=6)
        if lesson.write:
            page.prose(f"write: {lesson.write}", indent=6)


def json_text(report: Report) -> str:
    """The report as a JSON document."""
    document = {
        "project": report.project,
        "stack": report.stack,
        "endpoint": report.endpoint,
        "lookedAt": report.looked_at,
        "passed": report.passed,
        "verdict": report.verdict,
        "seconds": round(report.seconds, 1),
        "checks": [
            {
                "id": check.id,
                "title": check.title,
                "state": check.state,
                "summary": check.summary,
                "differences": [
                    {"where": one.where, "name": one.name, "declared": one.declared, "found": one.found}
                    for one in check.differences
                ],
                "lessons": [{"id": one.id, "text": one.text, "write": one.write} for one in check.lessons],
            }
            for check in report.checks
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
