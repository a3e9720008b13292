"""A rehearsal's report as an outline: verdict, drills, findings, what remains after destroy, limits.

The JSON document's keys are a contract: docs/command-line.md describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from facts.texts import plural
from fleet.report.outline import (
    Findings,
    Outline,
    Prose,
    Section,
    some,
)
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_elapsed
from lab.report import wording

if TYPE_CHECKING:
    from facts.finding import Finding
    from lab.report.model import RehearsalReport
    from lab.results.result import DrillResult

_SUMMARY_FIGURES = 6


def outline(report: RehearsalReport) -> Outline:
    """The whole report."""
    versions, found = report.versions, [_told(one.finding, one.drills) for one in report.found]
    said = (
        f"Pulumi {versions.pulumi} · its Kubernetes provider {versions.provider} · Kubernetes {versions.kubernetes} · "
        f"kwok {versions.kwok} · etcd {versions.etcd}"
    )
    to_fix = Section(title=f"To fix ({len(found)})", body=(Findings(tuple(found)),), id="to-fix") if found else None
    return Outline(
        title=f"{report.project} / {report.stack}",
        kind="rehearsal",
        verdict=f"{'✓' if report.passed else '✗'} {report.verdict} · {format_elapsed(report.wall_seconds)} of wall time",
        tone="good" if report.passed else "bad",
        head=(Prose(said, "soft"),),
        body=(
            *some(
                _drills(report) if report.drills else None,
                to_fix,
                _left(report) if report.retained else None,
            ),
        ),
        footer=tuple(wording.closing(report)),
        data=_data(report),
    )


# Sections -------------------------------------------------------------------------------------------------------------


def _drills(report: RehearsalReport) -> Section:
    rows = tuple(
        (
            Cell(f"{wording.MARKS[wording.state_of(drill)]} {drill.name}"),
            Cell(drill.title, note=_summary(report, drill)),
            Cell("" if drill.skipped else format_elapsed(drill.wall_seconds)),
        )
        for drill in report.drills
    )
    table = Table(
        id="drills",
        caption="Drills and their results",
        columns=(*texts("drill", "result"), *numbers("wall time")),
        rows=rows,
    )
    return Section(title="Drills", body=(table,), id="all-drills")


def _summary(report: RehearsalReport, drill: DrillResult) -> str:
    """Why a drill was skipped or failed, else its first figures."""
    if drill.skipped:
        return f"skipped: {drill.skipped}"
    if like := report.same_abort_as(drill):
        return f"aborted: same as {like}"
    if drill.gave_up:
        return f"aborted: {drill.gave_up}"
    failed = [f"{check.subject}: {check.found}" for check in drill.checks if check.blocks]
    if failed:
        return f"failed: {'; '.join(failed)}"
    figures = [f"{figure.name} {figure.value:,}" for figure in drill.figures]
    empty = [f"{one.subject}: {one.found}" for one in drill.checks if one.severity == "note"]
    return " · ".join((*empty, *figures[:_SUMMARY_FIGURES])) or wording.first_held(drill)


def _told(finding: Finding, drills: Sequence[str]) -> Finding:
    """The finding with a readable subject, and the drills that reported it."""
    return replace(finding, subject=format_subject(finding.subject), why=f"found by {', '.join(drills)}")


def format_subject(subject: str) -> str:
    """`PersistentVolumeClaim weights-reader-b`, from a URN or `Kind/name`."""
    if subject.startswith("urn:"):
        *_, types, name = subject.split("::")
        return f"{types.rpartition(':')[2]} {name}"
    return subject.replace("/", " ", 1)


def _left(report: RehearsalReport) -> Section:
    rows = []
    for one in report.left:
        names = ", ".join(f"`{name}`" for name in one.names)
        what = f"{one.kind} {names}" if len(one.names) == 1 else f"{plural(len(one.names), one.kind)}: {names}"
        why = f"{one.why}; {one.note}" if one.note else one.why
        rows.append((Cell(what), Cell(why)))
    table = Table(
        id="left",
        caption="Resources that remain after pulumi destroy",
        columns=texts("resource", "why"),
        rows=tuple(rows),
    )
    return Section(title="Remains after `pulumi destroy`", body=(table,), id="remains")


# The JSON document ----------------------------------------------------------------------------------------------------


def _data(report: RehearsalReport) -> dict[str, Any]:
    versions = report.versions
    return {
        "project": report.project,
        "stack": report.stack,
        "passed": report.passed,
        "verdict": report.verdict,
        "versions": {
            "pulumi": versions.pulumi,
            "kubernetesProvider": versions.provider,
            "kubernetes": versions.kubernetes,
            "kwok": versions.kwok,
            "etcd": versions.etcd,
        },
        "wallSeconds": round(report.wall_seconds, 3),
        "drills": [_drill_data(drill) for drill in report.drills],
        "notPlayed": list(report.not_played),
        "retained": [{"kind": one.kind, "name": one.name, "why": one.why, "note": one.note} for one in report.retained],
        "limits": list(report.limits),
    }


def _drill_data(drill: DrillResult) -> dict[str, Any]:
    return {
        "name": drill.name,
        "title": drill.title,
        "proves": drill.proves,
        "state": wording.state_of(drill),
        "skipped": drill.skipped,
        "gaveUp": drill.gave_up,
        "checks": [check.as_json() for check in drill.checks],
        "figures": [
            {
                "name": figure.name,
                "value": figure.value,
                "note": figure.note,
            }
            for figure in drill.figures
        ],
        "wallSeconds": round(drill.wall_seconds, 3),
    }
