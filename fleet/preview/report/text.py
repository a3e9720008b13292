"""The report for a terminal, fitted to the console's width, 60 columns at least."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fleet.plan.words import format_figure
from fleet.preview.report.several_stacks import Refusal, is_quiet, reports_of
from fleet.preview.report.text_policies import print_judges, print_policies, print_remark
from fleet.preview.report.wording import (
    bill_lines,
    format_bill_title,
    format_nature,
    format_per_million,
    format_published_nodes,
    format_rate,
    format_residual,
    format_size,
)
from fleet.report.terminal import Page, Paper, Part
from fleet.report.words import format_usd, plural

if TYPE_CHECKING:
    from facts.cost import Bill
    from facts.finding import Finding
    from fleet.preview.report.model import Node, Report
    from fleet.preview.report.several_stacks import Outcome


def print_text(paper: Paper, *outcomes: Outcome) -> None:
    """Write the report to `paper`; several stacks: the changed ones in turn, then a list of all."""
    page = Page(paper)
    several = len(outcomes) > 1
    whole = [one for one in outcomes if not (several and is_quiet(one))]
    for index, outcome in enumerate(whole):
        if index:
            page.rule()
        if isinstance(outcome, Refusal):
            page.line((outcome.stack, "bold"))
            for line in outcome.message.splitlines():
                page.prose(line.strip(), indent=len(line) - len(line.lstrip()), style="red")
        else:
            _print_report(page, outcome)
    if several:
        if whole:
            page.rule()
        _print_list(page, outcomes)
    page.print()


def _print_report(page: Page, report: Report) -> None:
    _headline(page, report)
    if (changes := report.comparison) is not None:
        # Imported here: a preview that compares nothing does not need it.
        from fleet.preview.report.text_changes import print_changes, print_numbers

        print_judges(page, report.policies)
        print_numbers(page, changes)
        print_changes(page, report, changes)
        print_policies(page, report.policies)
    else:
        _tree(page, report)
    _published(page, report)
    _cost(page, report)
    _findings(page, report)
    if changes is None:
        print_policies(page, report.policies)
    _closing(page, report)


def _print_list(page: Page, outcomes: Sequence[Outcome]) -> None:
    """One entry per stack, as the last screen."""
    from fleet.preview.report.judges import changes_of_all
    from fleet.preview.report.stack_list import line_of

    lines = [line_of(outcome) for outcome in outcomes]
    width = max(len(line.stack) for line in lines)
    for outcome, line in zip(outcomes, lines, strict=True):
        style = "bold red" if line.stops else "yellow" if line.warns else "green"
        quiet = is_quiet(outcome)
        page.line(
            (line.stack.ljust(width), "bold"), "  ", ("no changes · " if quiet else "", "dim"), (line.verdict, style)
        )
        for phrase in () if quiet else (*line.change, f"{line.price} · {line.rate}" if line.price else ""):
            if phrase:
                page.prose(phrase, indent=width + 2, style="dim")
    remarks = changes_of_all(reports_of(outcomes))
    if remarks:
        page.title("What judges these stacks", "changed by this change")
    for remark in remarks:
        print_remark(page, remark)
    if any(map(is_quiet, outcomes)):
        page.blank()
        page.item("unchanged stacks are not shown in detail; see `fleet preview --stack NAME`")


def _headline(page: Page, report: Report) -> None:
    fleet, recording, changes = report.fleet, report.recording, report.comparison
    page.heading(f"{recording.project} / {recording.stack}", "offline preview")
    if changes is not None:
        from fleet.preview.report.text_changes import print_consequences

        page.blank()
        print_consequences(page, changes)
        page.blank()
    page.prose(f"{format_size(fleet)} {fleet.bought} in {', '.join(fleet.zones)}", indent=0)
    page.prose(f"{fleet.model} @ {fleet.revision[:12]}, vLLM {fleet.vllm}, profile {fleet.profile}", indent=0)
    if fleet.platform is not None:
        page.prose(f"on the cluster of {fleet.platform}", indent=0)
    page.prose(f"{report.figures.bill.format_hourly_total()} · {format_rate(report)}", indent=0, style="bold cyan")
    for danger in report.dangers:
        page.blank()
        page.prose(danger, indent=0, mark="!! ", style="bold red", mark_style="bold white on red")


# The tree -------------------------------------------------------------------------------------------------------------


def _tree(page: Page, report: Report) -> None:
    page.blank()
    rows = list(_rows(report.tree))
    # Facts start in one column, at most at half the width.
    column = min(max(len(row.prefix) + len(row.label) for row in rows) + 2, page.width // 2 - 3)
    for row in rows:
        _print_row(page, row, column)
    counted = report.counted
    parts = [plural(counted["resource"], "resource"), plural(counted["component"], "component")]
    if counted["provider"]:
        parts.append(plural(counted["provider"], "provider"))
    page.blank()
    page.prose(
        f"{len(report.changes)} to create: {', '.join(parts)}, the stack",
        indent=0,
        mark="+ ",
        style="bold green",
        mark_style="green",
    )


class _Row:
    """A node with its tree guides."""

    __slots__ = ("below", "node", "prefix")

    def __init__(self, node: Node, prefix: str, below: str) -> None:
        self.node = node
        self.prefix = prefix
        self.below = below
        """Guides of continuation lines."""

    @property
    def label(self) -> str:
        return f"{self.node.kind} {self.node.name}"

    @property
    def facts(self) -> str:
        if self.node.component and self.node.children:
            return plural(self.node.total - 1, "resource")
        # A group lists names; other nodes have facts.
        return (", " if self.node.count > 1 else " · ").join(self.node.facts)


def _rows(node: Node, prefix: str = "", below: str = "") -> Iterator[_Row]:
    yield _Row(node, prefix, below + ("│  " if node.children else ""))
    last = len(node.children) - 1
    for index, child in enumerate(node.children):
        branch, trunk = ("└─ ", "   ") if index == last else ("├─ ", "│  ")
        yield from _rows(child, below + branch, below + trunk)


def _print_row(page: Page, row: _Row, column: int) -> None:
    mark = (" + ", "green")
    kind_style, name_style = ("dim", "bold") if row.node.component else ("cyan", "")
    used = len(row.prefix) + len(row.label)
    facts = textwrap.wrap(row.facts, page.width - 3 - column, break_long_words=False, break_on_hyphens=False)
    label: list[Part] = [mark, (row.prefix, "dim"), (row.node.kind, kind_style), " "]
    label.append((row.node.name, name_style))
    if facts and used + 2 <= column:
        label += [" " * (column - used), (facts.pop(0), "dim")]
    elif row.facts and 3 + used + 2 + len(row.facts) <= page.width:
        label += ["  ", (row.facts, "dim")]
        facts = []
    page.line(*label)
    for line in facts:
        page.line("   ", (row.below.ljust(column), "dim"), (line, "dim"))


# What was published, and what it costs -------------------------------------------------------------------------------


def _published(page: Page, report: Report) -> None:
    figures, match = report.figures, report.figures.match
    if match.figure is None:
        page.title("Throughput")
        page.prose(
            f"{match.reason}; the article has figures for {format_published_nodes(report)} of its own model and machine."
        )
        _estimate(page, report)
        return
    if figures.proven:
        page.title("Throughput", match.figure.label)
        page.prose(format_figure(match.figure), style="bold")
        page.prose(f"{match.figure.title}: {match.reason}")
    else:
        page.title("Throughput", "no published figure for this shape")
        page.prose(f"nearest: {match.figure.title}, {format_figure(match.figure)} ({match.figure.label})")
        page.prose(match.reason, style="yellow")
        _estimate(page, report)
    for also in match.figure.also_published if figures.proven else ():
        page.prose(f"also published: {also}", indent=4, style="dim")
    for difference in match.differences if figures.proven else ():
        page.prose(str(difference), indent=4, style="dim")


def _estimate(page: Page, report: Report) -> None:
    if report.modelled is not None:
        page.prose(report.modelled.format())


def _cost(page: Page, report: Report) -> None:
    bill, figures = report.figures.bill, report.figures
    page.title("Cost", format_bill_title(bill))
    width = page.width - 2
    for line in bill_lines(bill):
        amount = format_usd(line.usd_per_hour) if line.usd_per_hour is not None else "unknown"
        room = width - len(line.quantity) - len(line.dated) - len(amount) - 6
        name = line.name if len(line.name) <= room else line.name[: room - 1] + "…"
        page.line(
            "  ",
            name.ljust(room),
            "  ",
            (line.quantity, "dim"),
            "  ",
            (line.dated, "dim"),
            "  ",
            (amount, "yellow" if line.usd_per_hour is None else ""),
        )
    total = f"{'at least ' if bill.unknown else ''}{format_usd(bill.usd_per_hour_known)}"
    what = "total" if bill.usd_per_hour is not None else "total without the nodes"
    page.line("  ", (what.ljust(width - len(total)), "bold"), (total, "bold cyan"))
    _unknown_prices(page, bill)
    for sentence in (format_per_million(figures), *format_residual(bill)):
        page.item(sentence)


def _unknown_prices(page: Page, bill: Bill) -> None:
    nodes = next((item for item in bill.items if item.id == "nodes"), None)
    if nodes is not None and nodes.reason is not None:
        page.prose(f"nodes: {nodes.reason}", mark="· ", style="yellow", mark_style="dim")
    if bill.unknown:
        what = "price has" if len(bill.unknown) == 1 else "prices have"
        page.item(f"{len(bill.unknown)} {what} no dated source; the total is a lower bound")
    for item in bill.items:
        if item.elsewhere is not None and item is not nodes:
            page.item(f"{item.name}: {item.reason}")


# What is wrong ------------------------------------------------------------------------------------------------------


def _findings(page: Page, report: Report) -> None:
    unexpected = [one for one in report.findings if one.severity == "warning"]
    on_purpose = [one for one in report.findings if one.severity == "deliberate"]
    if unexpected:
        page.title(f"Findings ({len(unexpected)})", style="bold yellow")
        for finding in unexpected:
            _finding(page, finding)
    if on_purpose:
        page.title(f"Deliberate exceptions ({len(on_purpose)})", f"profile {report.fleet.profile}")
        for finding in on_purpose:
            _finding(page, finding)
    if report.notices:
        page.title(f"Notes ({len(report.notices)})")
        for notice in report.notices:
            page.item(f"{notice.subject} = {_shown(notice.found)}: {notice.why}")
    if report.diagnostics:
        page.title(f"Program messages ({len(report.diagnostics)})", style="bold yellow")
        for diagnostic in report.diagnostics:
            where = f" ({diagnostic.urn.rpartition('::')[2]})" if diagnostic.urn else ""
            page.prose(f"{diagnostic.severity}: {diagnostic.message}{where}", mark="· ", style="yellow")


def _finding(page: Page, finding: Finding) -> None:
    style = "" if finding.severity == "deliberate" else "yellow"
    page.prose(f"{finding.subject} = {_shown(finding.found)}", mark="! ", style=style, mark_style="yellow")
    page.prose(finding.why, indent=4)
    page.prose(finding.write, indent=4, mark="→ ", style="bold", mark_style="dim")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "(not set)" if value is None else str(value)


def _closing(page: Page, report: Report) -> None:
    page.title("About this preview")
    written = [] if report.out is None else [f"Manifests: {report.out}"]
    for remark in (*report.remarks, format_nature([report]), *written):
        page.item(remark)
    page.blank()
    for command in _next_steps(report):
        page.pointer(command)


def _next_steps(report: Report) -> Iterator[str]:
    stack = report.recording.stack
    if report.policies.mandatory:
        yield "fix the blocking policy violations, then preview again"
        return
    if report.fleet.stand_in_project:
        yield f"pulumi config set gcp:project MY-PROJECT --stack {stack}"
    yield f"fleet doctor --for up --stack {stack}"
    yield f"pulumi preview --stack {stack}"
