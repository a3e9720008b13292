"""The report as one self-contained HTML page: for a CI artifact, a phone, paper, by day and by night.

Jinja2 escapes every value; the page's own policy allows no script, image or request, should one slip through. The
templates and the style are in preview/html/.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from planner.report.environment import environment
from preview import changes_in_words, figures_in_words
from preview.change_tree import change_tree
from preview.report_markdown_policies import policies_of
from preview.several_stacks import Refusal, reports_of, stack_of
from preview.stack_list import line_of
from preview.verdicts import shared, verdicts

if TYPE_CHECKING:
    import jinja2

    from preview.report_model import Report
    from preview.several_stacks import Outcome

_FOLDER = Path(__file__).parent / "html"


def html_text(*outcomes: Outcome) -> str:
    """The whole page; of several stacks with a table of them first."""
    reports = reports_of(outcomes)
    against = {report.comparison.against for report in reports if report.comparison is not None}
    several = len(outcomes) > 1
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            title=f"Preview of {len(outcomes)} stacks" if several else f"Preview of {stack_of(outcomes[0])}",
            project=reports[0].recording.project if reports else "this project",
            against=", ".join(sorted(against)),
            made_up=any(report.mode == "known" for report in reports),
            lines=[line_of(outcome) for outcome in outcomes] if several else [],
            outcomes=outcomes,
        )
    )


def _environment() -> jinja2.Environment:
    made = environment(_FOLDER)
    for module in (changes_in_words, figures_in_words):
        made.globals |= {name: one for name, one in vars(module).items() if callable(one) and name[0] != "_"}
    made.globals |= {
        "marks": changes_in_words.MARKS,
        "change_tree": change_tree,
        "verdicts": verdicts,
        "shared": shared,
        "policies_of": policies_of,
        "name_of": stack_of,
        "name_of_urn": lambda urn: urn.rpartition("::")[2],
        "is_refusal": lambda outcome: isinstance(outcome, Refusal),
        "size_in_words": _size,
        "standing_numbers": _numbers,
    }
    return made


def _size(report: Report) -> str:
    fleet = report.fleet
    if fleet.nodes is None:
        return "As many A4 nodes (8 B200 each) as others ask for"
    return (
        f"{figures_in_words.plural(fleet.nodes, 'A4 node')} ({fleet.gpus:,} B200)"
        if fleet.nodes
        else "Paused, 0 A4 nodes"
    )


def _numbers(report: Report) -> Iterator[tuple[str, str]]:
    """The stack's own numbers, where nothing was compared."""
    fleet, figures = report.fleet, report.figures
    least = "at least " if figures.bill.unknown else ""
    yield "dollars an hour", f"{least}{figures_in_words.usd(figures.bill.usd_per_hour_known)}"
    if figures.usd_per_million_tokens is not None:
        yield "dollars a million tokens", f"{least}{figures_in_words.usd(figures.usd_per_million_tokens)}"
    if figures.total_tokens_per_s:
        yield f"tokens a second, {figures_in_words.rate_origin(figures)}", f"{figures.total_tokens_per_s:,}"
    if fleet.nodes is not None:
        yield "GPUs", f"{fleet.gpus:,}"
        yield "nodes", f"{fleet.nodes:,}"
    yield "resources to create", f"{len(report.changes):,}"
