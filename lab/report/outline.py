"""The report of a rehearsal as an outline: drills, what to fix, each drill's page with its timeline, what remains after destroy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from fleet.report.outline import (
    Box,
    Element,
    Figure,
    Findings,
    Items,
    Next,
    Number,
    Outline,
    Prose,
    Section,
    Tiles,
    some,
)
from fleet.report.rows import Rows, rows_drawing
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_elapsed, plural, sentence
from lab.report import wording
from lab.report.json_document import as_document
from lab.report.model import advice, is_advice
from lab.report.picture import day_of, table_lines, timeline_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.report.model import RehearsalReport
    from lab.results.result import Check, Day, DrillResult

SUMMARY_FIGURES: Final = 4
"""Figures of a drill in the table of drills."""


def outline(report: RehearsalReport, *, written: Sequence[str] = ()) -> Outline:
    """The whole report. `written`: paths of files with more detail."""
    versions = report.versions
    looked_at = (
        f"Pulumi {versions.pulumi}",
        f"Kubernetes {versions.kubernetes}",
        f"kwok {versions.kwok}",
        f"etcd {versions.etcd}",
        f"speed {report.speed:g}: a wall second is {report.speed:g} simulated seconds",
    )
    findings = _findings(report)
    return Outline(
        title=f"{report.project} / {report.stack}",
        kind="rehearsal",
        verdict=f"{'✓' if report.passed else '✗'} {report.verdict} · {format_elapsed(report.wall_seconds)}",
        tone="good" if report.passed else "bad",
        head=(Prose(" · ".join(looked_at), "soft"),),
        body=some(
            Section(title="Drills", id="all-drills", body=(_drills(report),)) if report.drills else None,
            *(_costs(drill, drill.day) for drill in report.drills if drill.day is not None),
            Section(title="To fix", remark=f"{len(findings)}", tone="bad", body=(Findings(findings),))
            if findings
            else None,
            Section(
                title="Advice",
                body=(Items(tuple(str(figure.value) for figure in advice(report.drills))),),
                only=("text", "markdown"),
            )
            if advice(report.drills)
            else None,
            *(_drill(drill) for drill in report.drills if not drill.skipped),
            Section(title="Remains after pulumi destroy", id="remains", body=(_left(report),))
            if report.retained
            else None,
            *(Next(path) for path in written),
        ),
        footer=tuple(wording.closing(report)),
        data=as_document(report),
    )


def _findings(report: RehearsalReport) -> tuple[Finding, ...]:
    """What the stack's updates met, with the drills that met it; then failed checks of drills."""
    met = (
        replace(one.finding, subject=format_subject(one.finding.subject), why=f"found by {', '.join(one.drills)}")
        for one in report.found
    )
    failed = (
        Finding(id=drill.name, subject=check.statement, found=check.seen)
        for drill in report.drills
        for check in drill.checks
        if not (check.held or check.empty)
    )
    return (*met, *failed)


def format_subject(subject: str) -> str:
    """`PersistentVolumeClaim weights-reader-b`, from a URN or `Kind/name`."""
    if subject.startswith("urn:"):
        _, _, types, name = subject.split("::", 3)
        return f"{types.rpartition(':')[2]} {name}"
    return subject.replace("/", " ", 1)


def _drills(report: RehearsalReport) -> Table:
    return Table(
        id="drills",
        caption="Drills and their results",
        columns=(*texts("drill", "result"), *numbers("wall time")),
        rows=tuple(
            (
                Cell(f"{wording.mark_of(drill)} {drill.name}", link="" if drill.skipped else drill.name),
                Cell(drill.title, note=_summary(report, drill)),
                Cell("" if drill.skipped else format_elapsed(drill.wall_seconds)),
            )
            for drill in report.drills
        ),
    )


def _summary(report: RehearsalReport, drill: DrillResult) -> str:
    """Why a drill was skipped or failed, else its first figures."""
    if drill.skipped:
        return f"skipped: {drill.skipped}"
    if like := report.same_abort_as(drill):
        return f"aborted: same as {like}"
    if drill.gave_up:
        return f"aborted: {drill.gave_up}"
    failed = [f"{check.statement}: {check.seen}" for check in drill.checks if not (check.held or check.empty)]
    if failed:
        return f"failed: {'; '.join(failed)}"
    empty = [f"{check.statement}: not applicable: {check.empty}" for check in drill.checks if check.empty]
    words = [wording.format_figure(figure) for figure in drill.figures if not (is_advice(figure) or figure.about)]
    more = [f"{len(words) - SUMMARY_FIGURES} more"] if len(words) > SUMMARY_FIGURES else []
    return " · ".join([*words[:SUMMARY_FIGURES], *more, *empty]) or wording.first_held(drill)


def _costs(drill: DrillResult, day: Day) -> Section:
    """What a day cost and what clients noticed, by its clock, where nothing can be drawn."""

    def told() -> Iterator[str]:
        for moment in day.moments:
            until = "" if moment.until_seconds is None else f" to {day.clock(moment.until_seconds)}"
            yield f"{day.clock(moment.at_seconds)}{until} {moment.subject}: {moment.text}"

    return Section(
        title=f"{drill.title}, from {day.clock(day.at_seconds)} to {day.clock(day.until_seconds)}",
        body=(Items(tuple(told())), *_tiles(drill, only_about=True)),
        only=("text", "markdown"),
    )


def _drill(drill: DrillResult) -> Section:
    """A drill's part of the page."""
    lines, left_out = table_lines(drill.moments)
    timeline = timeline_of(drill.name, drill.moments)
    checks = Items(tuple(map(_check, drill.checks))) if drill.checks else None
    return Section(
        id=drill.name,
        title=drill.title,
        remark=wording.mark_of(drill),
        only=("html",),
        body=some(
            Prose(f"Proves that {drill.proves}."),
            Prose(
                f"`--drill {drill.name}`, {wording.format_simulated(drill.simulated_seconds)} simulated in "
                f"{format_elapsed(drill.wall_seconds)} of wall time",
                "soft",
            ),
            Box(title="Aborted.", body=(Prose(sentence(drill.gave_up)),)) if drill.gave_up else None,
            _figure(day_of(drill.name, drill.day)) if drill.day is not None else checks,
            *(
                Box(title=f"{figure.name[:1].upper()}{figure.name[1:]}.", body=(Prose(str(figure.value)),), tone="warn")
                for figure in drill.figures
                if is_advice(figure)
            ),
            *_tiles(drill),
            checks if drill.day is not None else None,
            _figure(timeline) if timeline is not None else None,
            Section(
                title="What happened",
                id=f"table-{drill.name}",
                remark=plural(len(lines), "line") + (f"; {left_out:,} more are in rehearsal.json" if left_out else ""),
                folding="page",
                body=(_moments(drill),),
            )
            if lines
            else None,
        ),
    )


def _check(check: Check) -> str:
    if check.empty:
        return f"– {check.statement} · not applicable: {check.empty}"
    return f"{'✓' if check.held else '✗'} {check.statement} · {check.seen}"


def _figure(rows: Rows) -> Figure:
    return Figure(drawn=partial(rows_drawing, rows))


def _tiles(drill: DrillResult, *, only_about: bool = False) -> Iterator[Element]:
    """Numbers by heading; those without one come first."""
    by_heading: dict[str, list[Number]] = {}
    for figure in drill.figures:
        if not is_advice(figure) and (figure.about or not only_about):
            now, unit = wording.format_number(figure), wording.format_unit(figure)
            by_heading.setdefault(figure.about, []).append(
                Number(name=figure.name, now=now, unit=unit, more=figure.note)
            )
    for about, found in by_heading.items():
        tiles = Tiles(tuple(found))
        yield (
            Section(title=about, id=f"{drill.name}-{about.lower().replace(' ', '-')}", body=(tiles,))
            if about
            else tiles
        )


def _moments(drill: DrillResult) -> Table:
    return Table(
        id=f"moments-{drill.name}",
        caption="What happened",
        columns=texts("time", "lane", "subject", "what happened"),
        rows=tuple(
            (
                Cell(line.time),
                Cell(line.lane),
                Cell(line.subject, style="mono"),
                Cell(line.text, style="bad" if line.mood == "bad" else ""),
            )
            for line in table_lines(drill.moments)[0]
        ),
    )


def _left(report: RehearsalReport) -> Table:
    rows = []
    for left in report.left:
        names = ", ".join(left.names)
        what = f"{left.kind} {names}" if len(left.names) == 1 else f"{plural(len(left.names), left.kind)}: {names}"
        why = f"{left.why}; {left.note}" if left.note else left.why
        rows.append((Cell(what), Cell(why), Cell(wording.usd_per_month(left.usd_per_month))))
    return Table(
        id="left",
        caption="Resources that remain after pulumi destroy, and their cost",
        columns=(*texts("resource", "why"), *numbers("price")),
        rows=tuple(rows),
        foot=(Cell("total"), Cell(""), Cell(wording.format_left(report))),
    )
