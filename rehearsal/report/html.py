"""The report as one self-contained HTML page with a timeline of every drill: for a CI artifact, a phone, paper, by day and by night.

Jinja2 escapes every value; the page's own policy allows no script, image or request, should one slip through. The style is
that of the previews' page, and page/rehearsal.css adds what only a rehearsal has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from preview.words import count
from rehearsal.report import model, picture, wording
from rehearsal.report.text import subject_in_words

if TYPE_CHECKING:
    import jinja2

    from rehearsal.report.model import RehearsalReport
    from rehearsal.results import DrillResult

_FOLDER = Path(__file__).parent / "page"
_PREVIEWS_FOLDER = Path(__file__).parents[2] / "preview" / "html"
"""Where the shared style is."""
SUMMARY_FIGURES = 3
LABEL_CHARACTERS = 34
"""What 15 rem hold of the labels' monospaced type."""


def html_text(report: RehearsalReport) -> str:
    """The whole page."""
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(title=f"Rehearsal of {report.stack}", report=report, closing=tuple(_closing(report)))
    )


def _environment() -> jinja2.Environment:
    from planner.report.environment import environment

    made = environment(_FOLDER, _PREVIEWS_FOLDER)
    made.globals |= {
        "marks": wording.MARKS,
        "state_of": wording.state_of,
        "wall": lambda seconds: wording.wall(seconds).replace(" ", "\N{NO-BREAK SPACE}"),
        "count": count,
        "sentence": lambda text: text[:1].upper() + text[1:],
        "simulated": wording.simulated,
        "number_in_words": wording.number_in_words,
        "unit_in_words": wording.unit_in_words,
        "usd_per_month": wording.usd_per_month,
        "left_in_words": wording.left_in_words,
        "is_advice": model.is_advice,
        "picture_of": picture.picture_of,
        "in_words": picture.in_words,
        "subject_in_words": subject_in_words,
        "summary": _summary,
        "short_label": short_label,
    }
    made.tests["advice"] = model.is_advice
    return made


def _summary(report: RehearsalReport, drill: DrillResult) -> str:
    """What a drill showed, for a table: why it was skipped or failed, else its first figures."""
    if drill.skipped:
        return f"skipped: {drill.skipped}"
    if like := report.broke_off_like(drill):
        return f"broke off as {like} did"
    if drill.gave_up:
        return f"broke off: {drill.gave_up}"
    failed = [f"{one.statement}: {one.seen}" for one in drill.checks if not one.held]
    if failed:
        return f"not so: {'; '.join(failed)}"
    figures = [wording.figure_in_words(one) for one in drill.figures if not model.is_advice(one)]
    return " · ".join(figures[:SUMMARY_FIGURES]) or wording.held_in_words(drill)


def short_label(label: str) -> str:
    """A name that fits the column beside a row: its beginning, which says the kind, and its end, which tells it from others."""
    if len(label) <= LABEL_CHARACTERS:
        return label
    end = LABEL_CHARACTERS // 2 - 1
    return f"{label[: LABEL_CHARACTERS - end - 1]}…{label[-end:]}"


def _closing(report: RehearsalReport) -> Iterator[str]:
    yield from report.remarks
    yield from report.limits
