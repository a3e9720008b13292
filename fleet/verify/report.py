"""The report of `fleet verify` as an outline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fleet.report.outline import Findings, Outline, Prose, Tone

if TYPE_CHECKING:
    from fleet.verify.findings import Report

_TONES: Final[dict[str, Tone]] = {"passed": "good", "failed": "bad", "not checked": "warn"}


def outline(report: Report) -> Outline:
    """Each check's verdict; declared and found of failed ones."""
    return Outline(
        title=f"{report.project} / {report.stack}",
        kind="verify",
        verdict=f"{report.verdict} · {report.seconds:.0f} s",
        tone=_TONES[report.outcome],
        head=(Prose(" · ".join(filter(None, (report.endpoint, report.looked_at))), "soft"),),
        body=(Findings(tuple(finding for check in report.checks for finding in check)),),
        data={
            "project": report.project,
            "stack": report.stack,
            "endpoint": report.endpoint,
            "lookedAt": report.looked_at,
            "passed": report.outcome == "passed",
            "verdict": report.verdict,
            "seconds": round(report.seconds, 1),
        },
    )
