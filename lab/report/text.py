"""The report for a terminal: verdict, drills, findings, what remains after destroy, limits."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING, Final

from fleet.report.terminal import Page, Paper, Part
from fleet.report.words import format_elapsed, plural
from lab.report.model import advice, is_advice
from lab.report.wording import (
    MARKS,
    closing,
    first_held,
    format_figure,
    format_left,
    state_of,
    usd_per_month,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.report.model import Found, RehearsalReport
    from lab.report.wording import State
    from lab.results.result import Day, DrillResult

_STYLES: Final[dict[State, str]] = {"passed": "green", "failed": "bold red", "skipped": "dim"}
_FIGURE_LINES: Final = 3
"""Lines of figures below a drill; the page and the JSON document have all."""


def print_text(paper: Paper, report: RehearsalReport, *, written: Sequence[str] = ()) -> None:
    """Print the report to `paper`. `written`: paths of files with more detail."""
    page = Page(paper)
    _headline(page, report)
    _drills(page, report)
    for drill in report.drills:
        if drill.day is not None:
            _day(page, drill, drill.day)
    _findings(page, report.found)
    _advice(page, report)
    _retained(page, report)
    _closing(page, report, written)
    page.print()


def _headline(page: Page, report: RehearsalReport) -> None:
    page.heading(f"{report.project} / {report.stack}", "rehearsal")
    versions = report.versions
    parts = [
        f"Pulumi {versions.pulumi}",
        f"Kubernetes {versions.kubernetes}",
        f"kwok {versions.kwok}",
        f"etcd {versions.etcd}",
    ]
    parts.append(f"speed {report.speed:g}")
    page.prose(" · ".join(parts), indent=0, style="dim")
    state: State = "passed" if report.passed else "failed"
    page.blank()
    page.prose(
        f"{report.verdict} · {format_elapsed(report.wall_seconds)}",
        indent=0,
        mark=f"{MARKS[state]} ",
        style=_STYLES[state] if report.passed else "bold red",
        mark_style=_STYLES[state],
    )


# The table ------------------------------------------------------------------------------------------------------------


def _drills(page: Page, report: RehearsalReport) -> None:
    if not report.drills:
        return
    page.title("Drills", "wall time")
    column = 4 + min(max(len(one.name) for one in report.drills) + 2, page.width // 3)
    for drill in report.drills:
        _drill(page, drill, column, like=report.same_abort_as(drill))


def _drill(page: Page, drill: DrillResult, column: int, *, like: str) -> None:
    state = state_of(drill)
    time = "" if drill.skipped else format_elapsed(drill.wall_seconds)
    room = page.width - column - len(time) - 2
    title = textwrap.wrap(drill.title, max(16, room)) or [""]
    head: list[Part] = [
        "  ",
        (MARKS[state], _STYLES[state]),
        " ",
        (drill.name, "bold" if state != "skipped" else "dim"),
    ]
    used = 4 + len(drill.name)
    if used + 2 > column:
        # A name longer than its column gets its own line, with the time.
        page.line(*head, " " * max(2, page.width - used - len(time)), (time, "dim"))
        page.line(" " * column, title[0])
    else:
        gap = " " * max(2, page.width - column - len(title[0]) - len(time))
        page.line(*head, " " * (column - used), title[0], *((gap, (time, "dim")) if time else ()))
    for line in title[1:]:
        page.line(" " * column, line)
    if drill.skipped:
        page.prose(f"skipped: {drill.skipped}", indent=column, style="dim")
        return
    if drill.gave_up:
        page.prose(f"aborted: {f'same as {like}' if like else drill.gave_up}", indent=column, style="red")
    for check in drill.checks:
        if check.empty:
            page.prose(f"{check.statement}: not applicable: {check.empty}", indent=column, mark="– ", style="dim")
        elif not check.held:
            page.prose(f"{check.statement}: {check.seen}", indent=column, mark="✗ ", style="red", mark_style="bold red")
    _figures(page, drill, column)


def _figures(page: Page, drill: DrillResult, column: int) -> None:
    words = [format_figure(one) for one in drill.figures if not (is_advice(one) or one.about)]
    if not words and drill.passed:
        words = [held for held in (first_held(drill),) if held]
    shown, width = words, page.width - column
    if len(_wrapped(words, width)) > _FIGURE_LINES:
        fitting = range(len(words))
        number = max(
            (n for n in fitting if len(_wrapped([*words[:n], "and 99 more"], width)) <= _FIGURE_LINES), default=0
        )
        shown = [*words[:number], f"and {len(words) - number} more"]
    for line in _wrapped(shown, width):
        page.line(" " * column, (line, "dim"))


def _wrapped(words: Sequence[str], width: int) -> list[str]:
    """The words joined by dots, wrapped at the dots where possible."""
    lines: list[str] = []
    for text in words:
        if lines and len(lines[-1]) + 3 + len(text) <= width:
            lines[-1] += f" · {text}"
        else:
            lines += textwrap.wrap(text, width, break_long_words=False) or [""]
    return lines


def _day(page: Page, drill: DrillResult, day: Day) -> None:
    page.title(f"{drill.title}, from {day.clock(day.at_seconds)} to {day.clock(day.until_seconds)}")
    for one in day.moments:
        until = "" if one.until_seconds is None else f" to {day.clock(one.until_seconds)}"
        mark = f"{day.clock(one.at_seconds)}{until}".ljust(16)
        page.prose(f"{one.subject}: {one.text}", mark=mark, style="red" if one.mood == "bad" else "", mark_style="dim")
    for about, found in groupby((one for one in drill.figures if one.about), key=lambda one: one.about):
        page.title(about)
        for figure in found:
            page.item(f"{format_figure(figure)}{f' ({figure.note})' if figure.note else ''}")


# Findings -------------------------------------------------------------------------------------------------------------


def _findings(page: Page, found: Sequence[Found]) -> None:
    if not found:
        return
    errors = any(one.finding.severity == "error" for one in found)
    page.title(f"To fix ({len(found)})", style="bold red" if errors else "bold yellow")
    for one in found:
        finding = one.finding
        style = "red" if finding.severity == "error" else "yellow"
        page.prose(
            f"{format_subject(finding.subject)} ({finding.severity}, in {', '.join(one.drills)})",
            mark="! ",
            style=style,
            mark_style=f"bold {style}",
        )
        page.prose(finding.message, indent=4)
        page.prose(finding.fix, indent=4, mark="→ ", style="bold", mark_style="dim")


def format_subject(subject: str) -> str:
    """`PersistentVolumeClaim weights-reader-b`, from a URN or `Kind/name`."""
    if subject.startswith("urn:"):
        _, _, types, name = subject.split("::", 3)
        return f"{types.rpartition(':')[2]} {name}"
    return subject.replace("/", " ", 1)


def _advice(page: Page, report: RehearsalReport) -> None:
    for index, one in enumerate(advice(report.drills)):
        if not index:
            page.title("Advice")
        page.item(str(one.value))


def _retained(page: Page, report: RehearsalReport) -> None:
    if not report.retained:
        return
    page.title(f"Remains after pulumi destroy ({len(report.retained)})", format_left(report))
    for one in report.left:
        note = f" ({one.note})" if one.note else ""
        what = f"{one.kind} {one.names[0]}" if len(one.names) == 1 else plural(len(one.names), one.kind)
        page.item(f"{what}: {usd_per_month(one.usd_per_month)}{note}, {one.why}")
        if len(one.names) > 1:
            page.prose(f"{', '.join(one.names)}", indent=4, style="dim")


def _closing(page: Page, report: RehearsalReport, written: Sequence[str]) -> None:
    page.title("About this rehearsal")
    for text in closing(report):
        page.item(text)
    if written:
        page.blank()
    for path in written:
        page.pointer(path)
