"""The report as one self-contained HTML page with a timeline of every drill."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.report.page import Number, picture, render
from fleet.report.rows import rows_drawing
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_elapsed, plural, sentence
from lab.report import model, wording
from lab.report.picture import day_of, table_lines, timeline_of
from lab.report.text import format_subject

if TYPE_CHECKING:
    from markupsafe import Markup

    from lab.report.model import RehearsalReport
    from lab.results.result import DrillResult

_FOLDER = Path(__file__).parent / "page"
SUMMARY_FIGURES = 3


def html_text(report: RehearsalReport) -> str:
    """The whole page."""
    return render(
        _FOLDER,
        {
            "marks": wording.MARKS,
            "state_of": wording.state_of,
            "format_elapsed": format_elapsed,
            "plural": plural,
            "sentence": sentence,
            "format_simulated": wording.format_simulated,
            "is_advice": model.is_advice,
            "numbers_of": _numbers,
            "timeline": _timeline,
            "day": _day,
            "table_lines": table_lines,
            "moments_table": _moments,
            "format_subject": format_subject,
        },
        title=f"Rehearsal of {report.stack}",
        report=report,
        drills=_drills(report) if report.drills else None,
        left=_left(report) if report.retained else None,
        closing=tuple(wording.closing(report)),
    )


def _drills(report: RehearsalReport) -> Table:
    rows = []
    for drill in report.drills:
        mark = wording.MARKS[wording.state_of(drill)]
        rows.append(
            (
                Cell(f"{mark} {drill.title}", link="" if drill.skipped else drill.name),
                Cell(_summary(report, drill), style="dim"),
                Cell("" if drill.skipped else format_elapsed(drill.wall_seconds)),
            )
        )
    return Table(
        id="drills",
        caption="Drills and their results",
        columns=(*texts("drill", "result"), *numbers("wall time")),
        rows=tuple(rows),
    )


def _left(report: RehearsalReport) -> Table:
    rows = []
    for one in report.left:
        names = ", ".join(f"`{name}`" for name in one.names)
        what = f"{one.kind} {names}" if len(one.names) == 1 else f"{plural(len(one.names), one.kind)}: {names}"
        why = f"{one.why}; {one.note}" if one.note else one.why
        rows.append((Cell(what), Cell(why), Cell(wording.usd_per_month(one.usd_per_month))))
    return Table(
        id="left",
        caption="Resources that remain after pulumi destroy, and their cost",
        columns=(*texts("resource", "why"), *numbers("price")),
        rows=tuple(rows),
        foot=(Cell("total"), Cell(""), Cell(wording.format_left(report))),
    )


def _numbers(drill: DrillResult) -> list[tuple[str, list[Number]]]:
    """Tiles by heading; the empty heading holds most."""
    found: dict[str, list[Number]] = {}
    for one in drill.figures:
        if not model.is_advice(one):
            now, unit = wording.format_number(one), wording.format_unit(one)
            found.setdefault(one.about, []).append(Number(name=one.name, now=now, unit=unit, more=one.note or ""))
    return list(found.items())


def _day(drill: DrillResult) -> Markup | None:
    return None if drill.day is None else picture(partial(rows_drawing, day_of(drill.name, drill.day)))


def _timeline(drill: DrillResult) -> Markup | None:
    chart = timeline_of(drill.name, drill.moments)
    return None if chart is None else picture(partial(rows_drawing, chart))


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


def _summary(report: RehearsalReport, drill: DrillResult) -> str:
    """Why a drill was skipped or failed, else its first figures."""
    if drill.skipped:
        return f"skipped: {drill.skipped}"
    if like := report.same_abort_as(drill):
        return f"aborted: same as {like}"
    if drill.gave_up:
        return f"aborted: {drill.gave_up}"
    failed = [f"{one.statement}: {one.seen}" for one in drill.checks if not (one.held or one.empty)]
    if failed:
        return f"failed: {'; '.join(failed)}"
    figures = [wording.format_figure(one) for one in drill.figures if not model.is_advice(one)]
    return " · ".join(figures[:SUMMARY_FIGURES]) or wording.first_held(drill)
