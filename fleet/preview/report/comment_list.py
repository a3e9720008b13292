"""Head of a comment about several stacks: summary, dangers, one row per stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fleet.preview.report.comment_policies import changed_judges
from fleet.preview.report.judges import changes_of_all
from fleet.preview.report.several_stacks import refusals_of, reports_of
from fleet.preview.report.stack_list import line_of
from fleet.report.markdown import alert, cell, code, prose, table
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.preview.report.several_stacks import Outcome

_MOST_DANGERS = 30


def list_of_stacks(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Summary, dangers and table."""
    reports, refusals = reports_of(outcomes), refusals_of(outcomes)
    lines = [line_of(outcome) for outcome in outcomes]
    broken = sum(bool(report.policies.mandatory) for report in reports)
    worst = []
    if refusals:
        worst.append(f"{plural(len(refusals), 'stack')} cannot be previewed")
    if broken:
        worst.append(f"{plural(broken, 'stack')} with blocking policy violations")
    compared = [report.comparison for report in reports if report.comparison is not None]
    if compared and not worst:
        changing = sum(one.pending for one in compared)
        worst.append(
            f"{plural(changing, 'stack')} {'changes' if changing == 1 else 'change'}"
            if changing
            else "no stack changes"
        )
    yield f"### Preview of {plural(len(outcomes), 'stack')}: {', '.join(worst) or 'no problems'}"
    dangers = [
        f"{code(report.recording.stack)}: {prose(text)}"
        for report in reports
        for text in (
            *(one.message for one in (report.comparison.dangers if report.comparison else ())),
            *report.dangers,
        )
    ]
    if dangers:
        shown = [f"- {danger}" for danger in dangers[:_MOST_DANGERS]]
        rest = len(dangers) - len(shown)
        yield from alert("CAUTION", [*shown, *([f"- and {plural(rest, 'more danger')}"] if rest else [])])
    if compared:
        yield from changed_judges(changes_of_all(reports))
    against = sorted({one.against for one in compared})
    yield ""
    yield from table(
        ("stack", "verdict", "what changes", "price", "throughput"),
        (
            (
                code(line.stack),
                _mark(line.stops, line.warns) + cell(line.verdict),
                "<br>".join(map(cell, line.change)),
                cell(line.price),
                cell(line.rate),
            )
            for line in lines
        ),
    )
    if against:
        yield ""
        yield f"Compared with {', '.join(map(code, against))}."


def _mark(stops: bool, warns: bool) -> str:
    return "🛑 " if stops else "⚠️ " if warns else "✅ "
