"""The report as one self-contained HTML page for CI artifacts, phones and print, light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from fleet.plan.words import format_figure
from fleet.preview.compare.wording import (
    MARKS,
    format_after,
    format_before,
    format_difference,
    format_fate,
    format_reasons,
    format_summary,
    format_value,
    is_text,
    lines_that_differ,
    properties_of,
)
from fleet.preview.report.change_tree import change_tree
from fleet.preview.report.comment_policies import policies_of
from fleet.preview.report.judges import HOW_TO_LAND, changes_of, changes_of_all, remarks_of, rows_of
from fleet.preview.report.several_stacks import Refusal, by_weight, is_quiet, reports_of, stack_of
from fleet.preview.report.stack_list import line_of
from fleet.preview.report.verdicts import format_counts, shared, verdicts
from fleet.preview.report.wording import (
    bill_lines,
    format_bill_title,
    format_nature,
    format_per_million,
    format_published_nodes,
    format_residual,
    format_size,
    rate_origin,
)
from fleet.report.page import Number, render
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_usd, plural

if TYPE_CHECKING:
    from fleet.preview.report.model import Report
    from fleet.preview.report.several_stacks import Outcome

_FOLDER = Path(__file__).parent / "page"
_OUTPUTS_ONLY = "different outputs only"


def html_text(*outcomes: Outcome) -> str:
    """The whole page; several stacks start with a table, those that need attention first, the others folded."""
    outcomes = tuple(sorted(by_weight(outcomes), key=lambda one: bool(_folded(one))))
    reports = reports_of(outcomes)
    against = {report.comparison.against for report in reports if report.comparison is not None}
    several = len(outcomes) > 1
    return render(
        _FOLDER,
        {
            "format_fate": format_fate,
            "format_figure": format_figure,
            "format_per_million": format_per_million,
            "format_published_nodes": format_published_nodes,
            "format_reasons": format_reasons,
            "format_residual": format_residual,
            "format_size": format_size,
            "format_summary": format_summary,
            "format_value": format_value,
            "plural": plural,
            "heading": _heading_of_section if several else _heading,
            "marks": MARKS,
            "properties_of": properties_of,
            "is_text": is_text,
            "lines_that_differ": lines_that_differ,
            "change_tree": change_tree,
            "verdicts": verdicts,
            "remarks_of": lambda policies: list(remarks_of(policies)),
            "changes_of": lambda policies: list(changes_of(policies)),
            "judge_table": _judges,
            "how_to_land": HOW_TO_LAND,
            "format_counts": format_counts,
            "shared": shared,
            "policies_of": policies_of,
            "name_of": stack_of,
            "name_of_urn": lambda urn: urn.rpartition("::")[2],
            "is_refusal": lambda outcome: isinstance(outcome, Refusal),
            "folded": _folded,
            "is_changed": _is_changed,
            "numbers": lambda report: tuple(_numbers(report)),
            "unchanged": lambda report: tuple(_unchanged(report)),
            "differences": _differences,
            "bill_table": _bill,
        },
        title=f"{'Comparison' if against else 'Preview'} of "
        + (f"{len(outcomes)} stacks" if several else stack_of(outcomes[0])),
        answer=_answer(reports) if several and against else "",
        project=reports[0].recording.project if reports else "this project",
        against=", ".join(sorted(against)),
        nature=format_nature(reports),
        stacks=_stacks(outcomes) if several else None,
        changed_judges=changes_of_all(reports) if several else (),
        outcomes=outcomes,
    )


def _heading(title: str) -> Markup:
    return Markup('<h2 id="{}">{}</h2>').format(title.lower().replace(" ", "-"), title)


def _heading_of_section(title: str) -> Markup:
    return Markup("<h3>{}</h3>").format(title)


def _answer(reports: Sequence[Report]) -> str:
    resources = [one for one in reports if one.comparison is not None and one.comparison.changed]
    others = sum(_folded(one) == _OUTPUTS_ONLY for one in reports)
    answer = f"{len(resources)} of {plural(len(reports), 'stack')} changed"
    if 0 < len(resources) < len(reports):
        answer += f": {', '.join(stack_of(one) for one in resources)}"
    return answer + (f"; {others} with different outputs only" if others else "")


def _is_changed(outcome: Outcome) -> bool:
    if isinstance(outcome, Refusal) or outcome.comparison is None:
        return False
    return bool(outcome.comparison.changed)


def _folded(outcome: Outcome) -> str:
    """What to say of a stack whose section starts folded; empty for one that needs attention."""
    if is_quiet(outcome):
        return "no changes"
    if isinstance(outcome, Refusal) or outcome.comparison is None:
        return ""
    without = replace(outcome, comparison=replace(outcome.comparison, outputs=()))
    return _OUTPUTS_ONLY if is_quiet(without) else ""


def _stacks(outcomes: Sequence[Outcome]) -> Table:
    lines = [line_of(outcome) for outcome in outcomes]
    marks = ["✗" if line.stops else "!" if line.warns else "✓" for line in lines]
    return Table(
        id="stacks",
        caption="Verdict, changes, price and throughput of every stack",
        columns=texts("stack", "verdict", "what changes", "price", "throughput"),
        rows=tuple(
            (
                Cell(line.stack, link=f"stack-{number}", style="changed" if _is_changed(outcome) else ""),
                Cell(f"{mark} {line.verdict}"),
                Cell(_folded(outcome) or "; ".join(line.change)),
                Cell(line.price),
                Cell(line.rate),
            )
            for number, (outcome, line, mark) in enumerate(zip(outcomes, lines, marks, strict=True), start=1)
        ),
    )


def _numbers(report: Report) -> Iterator[Number]:
    """Numbers that change; without a comparison, the stack's numbers."""
    if report.comparison is None or not report.comparison.deltas:
        yield from _standing(report)
        return
    for one in report.comparison.deltas:
        if one.changed:
            was = ", ".join(filter(None, (format_before(one), format_difference(one))))
            yield Number(name=one.label, now=format_after(one), more=f"was {was}")


def _unchanged(report: Report) -> Iterator[Number]:
    if report.comparison is not None:
        for one in report.comparison.deltas:
            if not one.changed:
                yield Number(name=one.label, now=format_after(one))


def _standing(report: Report) -> Iterator[Number]:
    fleet, figures = report.fleet, report.figures
    least = "at least " if figures.bill.unknown else ""
    if figures.bill.usd_per_hour is None:
        yield Number(name="USD an hour", now="unknown", more=figures.bill.format_hourly_total())
    else:
        yield Number(name="USD an hour", now=f"{least}{format_usd(figures.bill.usd_per_hour)}")
    if figures.usd_per_million_tokens is not None:
        yield Number(name="USD per million tokens", now=f"{least}{format_usd(figures.usd_per_million_tokens)}")
    if figures.total_tokens_per_s:
        origin = rate_origin(figures)
        yield Number(name=f"tokens per second, {origin}", now=f"{figures.total_tokens_per_s:,}")
    if fleet.nodes is not None:
        yield Number(name="GPUs", now=f"{fleet.gpus:,}")
        yield Number(name="nodes", now=f"{fleet.nodes:,}")
    yield Number(name="resources to create", now=f"{len(report.changes):,}")


def _differences(report: Report) -> Table:
    return Table(
        id=f"differences-{report.recording.stack}",
        caption="Settings in which this stack differs from the published run",
        columns=texts("setting", "published", "here", "justification"),
        rows=tuple(
            (
                Cell(one.field, style="mono"),
                Cell(format_value(one.published), style="mono"),
                Cell(format_value(one.ours), style="mono"),
                Cell(one.argument or "not argued"),
            )
            for one in report.figures.match.differences
        ),
    )


def _judges(report: Report) -> Table | None:
    head, *body = rows_of(report.policies) or ((),)
    if not body:
        return None
    return Table(
        id=f"judges-{report.recording.stack}",
        caption="Who judges: the pack and limits before and after the change",
        columns=texts(*(name or "what" for name in head)),
        rows=tuple(tuple(map(Cell, row)) for row in body),
    )


def _bill(report: Report) -> Table:
    return Table(
        id=f"bill-{report.recording.stack}",
        caption=f"Bill: {format_bill_title(report.figures.bill)}",
        columns=(*texts("item", "quantity", "price of"), *numbers("USD an hour")),
        rows=tuple(
            (
                Cell(line.name),
                Cell(line.quantity, style="dim"),
                Cell(line.dated, style="dim"),
                Cell(format_usd(line.usd_per_hour) if line.usd_per_hour is not None else "unknown"),
            )
            for line in bill_lines(report.figures.bill)
        ),
    )
