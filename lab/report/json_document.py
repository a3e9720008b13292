"""The report as one JSON document; its keys are a contract.

    project, stack          names
    passed                  whether the exit code is 0
    verdict                 one line of text
    versions                pulumi, kubernetes, kwok, etcd
    speed                   simulated seconds per wall second
    wallSeconds             of the whole run
    drills                  in the order played: name, title, proves, state (passed, failed, skipped), skipped and gaveUp (reasons,
                            or ""), checks (statement, held, seen, empty: why it could not fail, or ""), figures (name, value,
                            unit, note, about: a heading, or ""), findings, moments (lane, subject, text, atSeconds, untilSeconds or
                            null, mood), day (null, or atSeconds, untilSeconds, startsAt: its time of day, curves (name, points:
                            [second, value] from then on), moments), wallSeconds, simulatedSeconds
    notPlayed               names of the drills without a result, when Ctrl-C or a signal stopped the run
    findings                each once, errors first: severity, subject, message, fix, drills (that reported it)
    retained                what remains after pulumi destroy: kind, name, why, usdPerMonth or null, note
    retainedUsdPerMonth     sum of known prices
    limits                  sentences about what a rehearsal cannot show

Seconds of moments and `simulatedSeconds` are simulated, on the drill's clock.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lab.report.wording import state_of

if TYPE_CHECKING:
    from lab.report.model import RehearsalReport
    from lab.results.result import Day, DrillResult, Finding
    from lab.results.timeline import Moment


def as_document(report: RehearsalReport) -> dict[str, Any]:
    """The whole report."""
    versions = report.versions
    return {
        "project": report.project,
        "stack": report.stack,
        "passed": report.passed,
        "verdict": report.verdict,
        "versions": {
            "pulumi": versions.pulumi,
            "kubernetes": versions.kubernetes,
            "kwok": versions.kwok,
            "etcd": versions.etcd,
        },
        "speed": report.speed,
        "wallSeconds": round(report.wall_seconds, 3),
        "drills": [_drill(one) for one in report.drills],
        "notPlayed": list(report.not_played),
        "findings": [{**_finding(one.finding), "drills": list(one.drills)} for one in report.found],
        "retained": [
            {"kind": one.kind, "name": one.name, "why": one.why, "usdPerMonth": one.usd_per_month, "note": one.note}
            for one in report.retained
        ],
        "retainedUsdPerMonth": round(report.retained_usd_per_month, 4),
        "limits": list(report.limits),
    }


def json_text(report: RehearsalReport) -> str:
    """The document, indented, keys in a fixed order, with a final newline."""
    return json.dumps(as_document(report), indent=2) + "\n"


def _drill(drill: DrillResult) -> dict[str, Any]:
    return {
        "name": drill.name,
        "title": drill.title,
        "proves": drill.proves,
        "state": state_of(drill),
        "skipped": drill.skipped,
        "gaveUp": drill.gave_up,
        "checks": [
            {"statement": one.statement, "held": one.held, "seen": one.seen, "empty": one.empty} for one in drill.checks
        ],
        "figures": [
            {"name": one.name, "value": one.value, "unit": one.unit, "note": one.note, "about": one.about}
            for one in drill.figures
        ],
        "findings": [_finding(one) for one in drill.findings],
        "moments": [_moment(one) for one in drill.moments],
        "day": None if drill.day is None else _day(drill.day),
        "wallSeconds": round(drill.wall_seconds, 3),
        "simulatedSeconds": round(drill.simulated_seconds, 3),
    }


def _day(day: Day) -> dict[str, Any]:
    return {
        "atSeconds": round(day.at_seconds, 3),
        "untilSeconds": round(day.until_seconds, 3),
        "startsAt": day.clock(day.at_seconds),
        "curves": [
            {"name": curve.name, "points": [[round(at, 3), value] for at, value in curve.points]}
            for group in day.curves
            for curve in group
        ],
        "moments": [_moment(one) for one in day.moments],
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "severity": finding.severity,
        "subject": finding.subject,
        "message": finding.message,
        "fix": finding.fix,
    }


def _moment(moment: Moment) -> dict[str, Any]:
    return {
        "lane": moment.lane,
        "subject": moment.subject,
        "text": moment.text,
        "atSeconds": round(moment.at_seconds, 3),
        "untilSeconds": None if moment.until_seconds is None else round(moment.until_seconds, 3),
        "mood": moment.mood,
    }
