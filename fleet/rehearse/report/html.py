"""The report as one self-contained HTML page with a timeline of every drill: for a CI artifact, a phone, paper, by day and by night."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.rehearse.report import model, wording
from fleet.rehearse.report.picture import day_of, timeline_of, told_lines
from fleet.rehearse.report.text import format_subject
from fleet.report.page import Number, picture, render
from fleet.report.rows import rows_drawing
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_elapsed, plural, sentence

if TYPE_CHECKING:
    from markupsafe import Markup

    from fleet.rehearse.report.model import RehearsalReport
    from fleet.rehearse.results import DrillResult

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
            "simulated": wording.simulated,
            "is_advice": model.is_advice,
            "numbers_of": _numbers,
            "timeline": _timeline,
            "day": _day,
            "told_lines": told_lines,
            "words_table": _words,
            "format_subject": format_subject,
        },
        title=f"Rehearsal of {report.stack}",
        report=report,
        drills=_drills(report) if report.drills else None,
        scales=_scales(report) if report.scales else None,
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
        caption="Every drill with its outcome",
        columns=(*texts("drill", "what it showed"), *numbers("wall time")),
        rows=tuple(rows),
    )


def _scales(report: RehearsalReport) -> Table:
    return Table(
        id="scales",
        caption="Wall time to bring up so many machines",
        columns=(*texts("machines", "phases, wall time"), *numbers("whole", "goal")),
        rows=tuple(
            (
                Cell(f"{one.nodes:,}"),
                Cell(", ".join(f"{phase.name} {format_elapsed(phase.wall_seconds)}" for phase in one.phases)),
                Cell(format_elapsed(one.wall_seconds), style="" if one.within_goal else "lost"),
                Cell("none" if one.goal_seconds is None else format_elapsed(one.goal_seconds)),
            )
            for one in report.scales
        ),
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
        caption="What outlives the stack, and what it costs",
        columns=(*texts("what", "why"), *numbers("price")),
        rows=tuple(rows),
        foot=(Cell("together"), Cell(""), Cell(wording.format_left(report))),
    )


def _numbers(drill: DrillResult) -> list[tuple[str, list[Number]]]:
    """Tiles by their heading; most have none."""
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


def _words(drill: DrillResult) -> Table:
    return Table(
        id=f"words-{drill.name}",
        caption="What happened, in words",
        columns=texts("minute", "where", "what", "how"),
        rows=tuple(
            (
                Cell(line.minutes),
                Cell(line.lane),
                Cell(line.subject, style="mono"),
                Cell(line.text, style="bad" if line.mood == "bad" else ""),
            )
            for line in told_lines(drill.moments)[0]
        ),
    )


def _summary(report: RehearsalReport, drill: DrillResult) -> str:
    """What a drill showed, for a table: why it was skipped or failed, else its first figures."""
    if drill.skipped:
        return f"skipped: {drill.skipped}"
    if like := report.broke_off_like(drill):
        return f"broke off as {like} did"
    if drill.gave_up:
        return f"broke off: {drill.gave_up}"
    failed = [f"{one.statement}: {one.seen}" for one in drill.checks if not (one.held or one.empty)]
    if failed:
        return f"not so: {'; '.join(failed)}"
    figures = [wording.format_figure(one) for one in drill.figures if not model.is_advice(one)]
    return " · ".join(figures[:SUMMARY_FIGURES]) or wording.first_held(drill)
