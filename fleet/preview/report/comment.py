"""Pull-request comment: verdict first, long parts folded, within GitHub's size limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from fleet.plan.words import format_figure
from fleet.preview.report.several_stacks import Refusal, is_quiet, refusals_of, reports_of, stack_of
from fleet.preview.report.wording import (
    bill_lines,
    format_nature,
    format_per_million,
    format_published_nodes,
    format_rate,
    format_residual,
    format_size,
)
from fleet.report.markdown import LIMIT, Part, alert, code, escape, fenced, fold, joined, prose, table
from fleet.report.words import format_usd, plural

if TYPE_CHECKING:
    from facts.finding import Finding
    from fleet.preview.report.model import Node, Policies, Report
    from fleet.preview.report.several_stacks import Outcome

_VERDICT, _EVIDENCE, _DETAIL = 0, 1, 2
"""Ranks of sections: always kept, dropped second, dropped first."""
_MOST_REFUSAL_LINES = 40
_MOST_DANGERS = 10
_MOST_VIOLATIONS = 25
"""Rows shown in the visible table; the rest is folded."""


def markdown_text(*outcomes: Outcome) -> str:
    """The whole report as GitHub-flavored Markdown; several stacks start with a table."""
    several = len(outcomes) > 1
    sections: list[Part] = []
    if several:
        from fleet.preview.report.comment_list import list_of_stacks

        sections.append(Part(name="the table of stacks", text=_text(list_of_stacks(outcomes))))
    for outcome in outcomes:
        if isinstance(outcome, Refusal):
            sections.append(_refusal(outcome, LIMIT // 2 // len(refusals_of(outcomes))))
        elif several and is_quiet(outcome):
            sections.append(_quiet(outcome))
        else:
            sections += _sections(outcome, several=several)
    if several:
        sections.append(Part(name="about", text=f"Offline preview. {format_nature(reports_of(outcomes))}"))
    stack = "STACK" if several else stack_of(outcomes[0])
    return joined(sections, elsewhere=f"See `fleet preview --stack {stack}`, or `--format html` and `json`.")


def _quiet(report: Report) -> Part:
    stack = report.recording.stack
    parts = "\n\n".join(section.text for section in _sections(report, several=True) if section.text)
    return Part(name=f"all about {stack}", text=_text(fold(f"{stack}: no changes", [parts])), rank=_DETAIL)


def _sections(report: Report, *, several: bool) -> Iterator[Part]:
    stack, changes = report.recording.stack, report.comparison

    def section(name: str, lines: Iterable[str], rank: int) -> Part:
        return Part(name=f"{name} of {stack}" if several else name, text=_text(lines), rank=rank)

    if changes is None:
        yield section("the headline", _headline(report, several=several), _VERDICT)
        if several:
            yield section("throughput and cost", _figures(report), _DETAIL)
        else:
            yield section("throughput", _throughput(report), _EVIDENCE)
            yield section("the bill", _cost(report), _DETAIL)
        yield section("findings", _findings(report), _EVIDENCE)
        yield section("policies", _policies(report.policies), _EVIDENCE)
        yield section("advisories", _advisories(report.policies), _DETAIL)
        yield section("the resources", _resources(report), _DETAIL)
    else:
        from fleet.preview.report import comment_changes as changed

        yield section("the headline", changed.headline(report, changes, several=several), _VERDICT)
        yield section("what judges this change", _judges(report.policies), _VERDICT)
        if changes.pending:
            yield section("the numbers", changed.numbers(changes), _EVIDENCE)
        yield section("policies", _policies(report.policies), _EVIDENCE)
        yield section("what is replaced and deleted", changed.losses(report, changes), _EVIDENCE)
        yield section("the differences", changed.differences(report, changes), _DETAIL)
        yield section("advisories", _advisories(report.policies), _DETAIL)
        if changes.pending:
            yield section("findings", _findings(report), _DETAIL)
            yield section("throughput and cost", _figures(report), _DETAIL)
    yield section("remarks", _about(report, several=several), _DETAIL if several else _EVIDENCE)


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip("\n")


def _refusal(refusal: Refusal, room: int) -> Part:
    """The error message, limited in length."""
    lines = [line[:500] for line in refusal.message.splitlines()]
    ends = accumulate(len(line) + 1 for line in lines)
    shown = max(1, sum(end <= room for end in islice(ends, _MOST_REFUSAL_LINES)))
    rest = [f"({plural(len(lines) - shown, 'more line')})"] if len(lines) > shown else []
    body = fenced(lines[:shown] + rest, "text")
    head = f"#### {code(refusal.stack)}: cannot be previewed"
    return Part(name=f"why {refusal.stack} is refused", text="\n".join([head, "", *body]), rank=_VERDICT)


def _headline(report: Report, *, several: bool) -> Iterator[str]:
    fleet, figures, recording = report.fleet, report.figures, report.recording
    head = "####" if several else "### Preview of"
    yield f"{head} `{recording.stack}`: {len(report.changes)} to create, {figures.bill.format_hourly_total()}"
    yield ""
    yield (
        f"{format_size(fleet)} {fleet.bought} in {', '.join(fleet.zones)} · {code(fleet.model)} at "
        f"{code(fleet.revision[:12])} · vLLM {escape(fleet.vllm)} · profile {code(fleet.profile)} · {format_rate(report)}"
    )
    if fleet.platform is not None:
        yield f"On the cluster of {code(fleet.platform)}."
    for danger in report.dangers[:_MOST_DANGERS]:
        yield from alert("CAUTION", [prose(danger)])


def _figures(report: Report) -> Iterator[str]:
    """The facts that the table of stacks or of numbers contains."""
    yield from fold("Throughput and cost", [*_throughput(report), "", *_cost(report)])


def _throughput(report: Report) -> Iterator[str]:
    figures, match = report.figures, report.figures.match
    if match.figure is None:
        yield f"**Throughput**: {match.reason}; the article has figures for {format_published_nodes(report)} of its own model and machine."
        yield from _estimate(report)
        return
    figure = match.figure
    if figures.proven:
        yield f"**Throughput** ({figure.label}): {format_figure(figure)}. {prose(figure.title)}: {match.reason}."
    else:
        yield f"**Throughput**: no published figure for this shape. {prose(match.reason)}."
        yield ""
        yield f"Nearest: {prose(figure.title)}, {format_figure(figure)} ({figure.label})."
        yield from _estimate(report)
    if match.differences:
        rows = (
            (code(one.field), code(one.published), code(one.ours), one.argument or "**not argued**")
            for one in match.differences
        )
        yield from fold(
            plural(len(match.differences), "difference") + f" from the {figure.origin} run",
            table(("setting", figure.origin, "here", "justification"), rows),
        )


def _estimate(report: Report) -> Iterator[str]:
    if report.modelled is not None:
        yield ""
        yield f"{prose(report.modelled.format())}."


def _cost(report: Report) -> Iterator[str]:
    bill = report.figures.bill
    summary = [format_per_million(report.figures), *format_residual(bill)]
    yield f"**Cost**: {bill.format_hourly_total()}, list prices of {bill.region}"
    yield ""
    for line in summary:
        yield f"- {line}"
    amounts = {item.name: item.reason for item in bill.items}
    rows = (
        (
            line.name,
            line.quantity,
            line.dated,
            format_usd(line.usd_per_hour) if line.usd_per_hour is not None else "unknown",
            amounts[line.name] or "",
        )
        for line in bill_lines(bill)
    )
    body = [
        *table(("item", "quantity", "price of", "USD an hour", "why unknown"), rows),
        "",
        "Not on the bill: " + "; ".join(bill.excluded) + ".",
    ]
    yield from fold(plural(len(bill.items), "line") + " of the bill", body)


def _findings(report: Report) -> Iterator[str]:
    unexpected = [one for one in report.findings if one.severity == "warning"]
    on_purpose = [one for one in report.findings if one.severity == "deliberate"]
    if unexpected:
        yield f"**Findings ({len(unexpected)})**"
        yield ""
        yield from _list(unexpected)
    if report.diagnostics:
        yield ""
        yield "**The program says**"
        yield ""
        yield from (f"- {one.severity}: {prose(one.message)}" for one in report.diagnostics)
    if on_purpose:
        yield from fold(
            f"{plural(len(on_purpose), 'deliberate exception')} of profile {report.fleet.profile}",
            list(_list(on_purpose)),
        )
    if report.notices:
        yield from fold(
            f"{plural(len(report.notices), 'note')}",
            [f"- {code(one.subject)} = {code(one.found)}: {prose(one.why)}" for one in report.notices],
        )


def _list(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"- {code(finding.subject)} = {code(finding.found)}: {prose(finding.why)}"
        yield f"  Write: {code(finding.write)}"


def _judges(policies: Policies) -> Iterator[str]:
    """What the change does to its judge."""
    from fleet.preview.report.comment_policies import judges

    yield from judges(policies)


def _policies(policies: Policies) -> Iterator[str]:
    """The policy verdict and blocking violations."""
    from fleet.preview.report.comment_policies import in_sight

    yield from in_sight(policies, _MOST_VIOLATIONS)


def _advisories(policies: Policies) -> Iterator[str]:
    """Warnings, folded."""
    from fleet.preview.report.comment_policies import folded

    yield from folded(policies, _MOST_VIOLATIONS)


def _resources(report: Report) -> Iterator[str]:
    counted = report.counted
    summary = f"{len(report.changes)} to create: {plural(counted['resource'], 'resource')} in "
    yield from fold(summary + plural(counted["component"], "component"), fenced(_tree(report.tree, 0)))


def _tree(node: Node, depth: int) -> Iterator[str]:
    facts = f"  {', '.join(node.facts)}" if node.facts else ""
    yield f"+ {'  ' * depth}{node.kind} {node.name}{facts}"
    for child in node.children:
        yield from _tree(child, depth + 1)


def _about(report: Report, *, several: bool) -> Iterator[str]:
    remarks = [f"- {prose(remark)}" for remark in report.remarks]
    if several:
        yield from fold(f"About the preview of {report.recording.stack}", remarks) if remarks else ()
        return
    yield from remarks
    yield f"- Offline preview. {format_nature([report])}"
