"""The data of the report's JSON document; its keys are a contract.

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
    retained                what remains after pulumi destroy: kind, name, why, usdPerMonth or null, note
    retainedUsdPerMonth     sum of known prices
    limits                  sentences about what a rehearsal cannot show
    findings                each once, errors first, then failed checks, in the shape of every report: id, subject, severity, found,
                            allowed, why (the drills that met it), write; beside them `version`, of this shape

Seconds of moments and `simulatedSeconds` are simulated, on the drill's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.report.wording import state_of

if TYPE_CHECKING:
    from lab.report.model import RehearsalReport
    from lab.results.result import Day, DrillResult
    from lab.results.timeline import Moment


def as_document(report: RehearsalReport) -> dict[str, Any]:
    """The report's own keys; the renderer adds the findings."""
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
        "drills": [_drill(drill) for drill in report.drills],
        "notPlayed": list(report.not_played),
        "retained": [
            {"kind": one.kind, "name": one.name, "why": one.why, "usdPerMonth": one.usd_per_month, "note": one.note}
            for one in report.retained
        ],
        "retainedUsdPerMonth": round(report.retained_usd_per_month, 4),
        "limits": list(report.limits),
    }


def _drill(drill: DrillResult) -> dict[str, Any]:
    return {
        "name": drill.name,
        "title": drill.title,
        "proves": drill.proves,
        "state": state_of(drill),
        "skipped": drill.skipped,
        "gaveUp": drill.gave_up,
        "checks": [
            {"statement": check.statement, "held": check.held, "seen": check.seen, "empty": check.empty}
            for check in drill.checks
        ],
        "figures": [
            {
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "note": figure.note,
                "about": figure.about,
            }
            for figure in drill.figures
        ],
        "findings": [finding.as_json() for finding in drill.findings],
        "moments": [_moment(moment) for moment in drill.moments],
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
        "moments": [_moment(moment) for moment in day.moments],
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
