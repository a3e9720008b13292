"""Sections of a preview: what the stack is, its bill, throughput, findings, resources and changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.cost import format_indication
from facts.finding import Finding
from facts.texts import plural
from fleet.plan.words import format_figure
from fleet.preview.compare.engine_words import engine_words
from fleet.preview.compare.wording import (
    format_after,
    format_before,
    format_difference,
    format_summary,
    format_value,
)
from fleet.preview.policy_config import config_file
from fleet.preview.report.change_tree import change_tree, created_tree, edit_of, folded_tree
from fleet.preview.report.picture import picture
from fleet.preview.report.policies import findings_of, remarks_of, without_told
from fleet.preview.report.wording import (
    bill_lines,
    format_hourly,
    format_nature,
    format_no_figure,
    format_per_million,
    format_rate,
    format_residual,
    format_size,
)
from fleet.report.outline import Box, Branch, Code, Element, Findings, Items, Prose, Section, Tree, next_steps, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_usd

if TYPE_CHECKING:
    from facts.cost import Bill, LineItem
    from fleet.preview.compare.changes import Changes
    from fleet.preview.report.model import Report

_MOST_BLOCKING: Final = 10
"""Blocking findings in sight; the others are folded."""
_LARGEST: Final = 5
"""Rows of the bill on the first screen."""
_LARGEST_BRANCHES: Final = 6
"""Components there. Both fit a screen of 80 x 45 with the stack that has most of them."""


# What it is -----------------------------------------------------------------------------------------------------------


def what_it_is(report: Report) -> Iterator[Element]:
    """Size, place, model, price and rate, and what costs money at once."""
    fleet, figures = report.fleet, report.figures
    on = f" on the cluster of {fleet.platform}" if fleet.platform is not None else ""
    apart = f", {fleet.shape}" if fleet.shape else ""
    where = f"{format_size(fleet)} {fleet.bought} in {', '.join(fleet.zones)}{on}"
    yield Items(
        (
            f"{where}: {fleet.model}, vLLM {fleet.vllm}, profile {fleet.profile}{apart}",
            f"{format_hourly(figures.bill)}; {format_per_million(figures)}",
            format_rate(report),
            *(bound.text() for bound in report.bounds),
        )
    )
    for danger in report.dangers:
        yield Box(body=(Prose(danger),))


def about_section(report: Report) -> Section:
    """What the reader should know about this preview itself, and who judged it."""
    written = [] if report.out is None else [f"Manifests: {report.out}"]
    revision = f"Weights: revision {report.fleet.revision}."
    remarks = (*report.remarks, *remarks_of(report.policies), revision, format_nature([report]), *written)
    return Section(title="About", body=(Items(remarks),), folding="always", rank=1)


def next_section(report: Report) -> Section | None:
    """What to type next; nothing where a policy blocks."""
    if report.policies.mandatory:
        return None
    stack = report.recording.stack
    judged = f" --policy-pack policy --policy-pack-config {config_file(stack)}"
    begin = (f"pulumi login && pulumi stack init {stack}", f"pulumi config set gcp:project MY-PROJECT --stack {stack}")
    return next_steps(
        *(begin if report.fleet.stand_in_project else ()),
        f"fleet doctor --for up --stack {stack}",
        f"pulumi preview --stack {stack}{judged if report.policies.state == 'judged' else ''}",
    )


# Throughput -----------------------------------------------------------------------------------------------------------


def throughput_section(report: Report) -> Section:
    """The published figure, or why there is none, and the model's estimate."""
    figures, match, modelled = report.figures, report.figures.match, report.modelled
    estimate = Prose(modelled.format()) if modelled is not None else None
    assumed = Prose(modelled.assumed) if modelled is not None and modelled.assumed else None
    remark, body = "", some(Prose(format_no_figure(report)), estimate, assumed)
    if match.figure is not None and figures.proven:
        remark = match.figure.label
        body = (
            Prose(format_figure(match.figure), "strong"),
            Prose(f"{match.figure.title}: {match.reason}"),
            *(Prose(f"also published: {one}") for one in match.figure.also_published),
        )
    elif match.figure is not None:
        remark = "no published figure for this shape"
        nearest = f"nearest: {match.figure.title}, {format_figure(match.figure)} ({match.figure.label})"
        body = some(Prose(nearest), Prose(match.reason), estimate, assumed)
    differences = (_differences(report),) if match.differences else ()
    return Section(title="Throughput", remark=remark, body=(*body, *differences), folding="always", rank=1)


def _differences(report: Report) -> Table:
    match = report.figures.match
    origin = match.figure.origin if match.figure is not None else "published"
    return Table(
        id="differences",
        caption="Settings in which this stack differs from the published run",
        columns=texts(f"differs from the {origin} run", origin, "here", "justification"),
        rows=tuple(
            (
                Cell(f"`{one.field}`"),
                Cell(f"`{format_value(one.published)}`"),
                Cell(f"`{format_value(one.ours)}`"),
                Cell(one.argument or "not argued"),
            )
            for one in match.differences
        ),
    )


# The bill -------------------------------------------------------------------------------------------------------------


def largest_costs(report: Report) -> Section:
    """The bill's largest rows, and what has no price on one line."""
    bill = report.figures.bill
    priced = sorted(
        (one for one in bill.items if one.usd_per_hour is not None), key=lambda one: -(one.usd_per_hour or 0)
    )
    shown, near = priced[:_LARGEST], format_indication(bill.items)
    table = Table(
        id="largest",
        caption="The largest rows of the bill",
        columns=(*texts("item"), *numbers("USD an hour")),
        rows=tuple((Cell(one.name), Cell(format_usd(one.usd_per_hour or 0))) for one in shown),
        foot=(Cell(f"{plural(len(bill.unknown), 'more row')}{f', {near}' if near else ''}"), Cell("unknown"))
        if bill.unknown
        else (),
    )
    return Section(
        title="Largest costs",
        remark=f"list prices of {bill.region}",
        body=(table,),
        rank=1,
    )


def bill_section(report: Report) -> Section:
    """The bill, line by line, and what it leaves out."""
    bill = report.figures.bill
    reasons = {item.name: _why_unknown(item) for item in bill.items if item is not bill.nodes} | {bill.nodes.name: ""}
    table = Table(
        id="bill",
        caption="The bill",
        columns=(*texts("item", "quantity", "price of"), *numbers("USD an hour")),
        rows=tuple(
            (
                Cell(line.name, note=reasons[line.name]),
                Cell(line.quantity),
                Cell(line.dated),
                Cell(format_usd(line.usd_per_hour) if line.usd_per_hour is not None else "unknown"),
            )
            for line in bill_lines(bill)
        ),
        foot=(
            Cell("total" if bill.usd_per_hour is not None else "total without the nodes"),
            Cell(""),
            Cell(""),
            Cell(_total(bill)),
        ),
    )
    nodes = [f"nodes: {bill.nodes.reason}"] if bill.nodes.reason is not None else []
    left_out = f"Not on the bill: {'; '.join(bill.excluded)}."
    return Section(
        title="Bill",
        remark=f"USD an hour, list prices of {bill.region}",
        body=(table, Items((*nodes, *format_residual(bill), left_out))),
        folding="always",
        rank=2,
    )


def _total(bill: Bill) -> str:
    return f"{'at least ' if bill.unknown else ''}{format_usd(bill.usd_per_hour_known)}"


def _why_unknown(item: LineItem) -> str:
    """The reason, and what the item costs at the nearest region's price."""
    about = item.indicated_usd_per_hour
    return (item.reason or "") + (f": about {format_usd(about)} an hour" if about is not None else "")


# Findings -------------------------------------------------------------------------------------------------------------


def finding_sections(report: Report) -> Iterator[Section]:
    """What policies, checks and the program found: what blocks with its cure, the rest one line each, then in full."""
    found = every_finding(report)
    blocking, rest = (tuple(one for one in found if one.blocks is blocks) for blocks in (True, False))
    if found:
        body = some(Findings(blocking[:_MOST_BLOCKING]), Findings(rest, is_brief=True))
        yield Section(title=f"Findings ({len(found)})", body=body, rank=1)
    if more := (*blocking[_MOST_BLOCKING:], *rest):
        yield Section(title="Reasons", body=(Findings(more),), folding="always", rank=1)


def every_finding(report: Report) -> tuple[Finding, ...]:
    """What blocks, then warnings, deliberate exceptions and notes."""
    told = (*report.findings, *report.notices)
    found = (*findings_of(without_told(report.policies, told)), *_said_by_program(report), *told)
    order = ("error", "warning", "deliberate", "note")
    return tuple(sorted(found, key=lambda one: order.index(one.severity) if one.severity in order else len(order)))


def _said_by_program(report: Report) -> Iterator[Finding]:
    for diagnostic in report.diagnostics:
        yield Finding(
            id="program",
            subject=diagnostic.urn.rpartition("::")[2] or "the program",
            severity="error" if diagnostic.severity == "error" else "warning",
            found=diagnostic.message,
        )


# Resources ------------------------------------------------------------------------------------------------------------


def resource_sections(report: Report) -> Iterator[Section]:
    """The components, then every resource that is created."""
    counted = report.counted
    parts = [plural(counted[kind], kind) for kind in ("resource", "component", "provider") if counted[kind]]
    title = f"{len(report.created)} to create"
    yield Section(
        title=title, remark=", ".join(parts), body=(Tree(folded_tree(report.recording, _LARGEST_BRANCHES)),), rank=2
    )
    yield Section(title="Resources", body=(Tree(created_tree(report.recording)),), folding="always", rank=2)
    yield Section(title="Picture", body=(Code(picture(report.recording), "mermaid"),), folding="always", rank=2)


# Changes --------------------------------------------------------------------------------------------------------------


def effects(changes: Changes, *, dangers_are_told: bool = False) -> Iterator[Element]:
    """What changes in the engine's words, dangers, then restarts, minutes, price and rate."""
    if words := engine_words(changes.resources):
        yield Prose(words, "strong")
    if changes.dangers and not dangers_are_told:
        yield Box(body=tuple(Prose(danger.message) for danger in changes.dangers))
    yield Items(changes.headline)


def change_sections(report: Report, changes: Changes) -> Iterator[Section]:
    """The numbers, and the resources that change."""
    if any(one.changed for one in changes.deltas):
        yield _numbers(changes)
    tree = change_tree(changes, report.recording)
    top = Branch(name="outputs of the stack", mark="~", edits=tuple(map(edit_of, changes.outputs)))
    body = some(
        Prose("no resource changes") if tree is None else Tree(tree),
        Tree(top) if changes.outputs else None,
        Items(changes.remarks) if changes.remarks else None,
    )
    yield Section(title="Changes", remark=format_summary(changes), body=body, folding="always", rank=1)


def _numbers(changes: Changes) -> Section:
    table = Table(
        id="numbers",
        caption="Numbers before and after the change",
        columns=(*texts(""), *numbers("before", "after", "difference")),
        rows=tuple(
            (Cell(one.label), Cell(format_before(one)), Cell(format_after(one)), Cell(format_difference(one)))
            for one in changes.deltas
            if one.changed
        ),
    )
    return Section(title="Numbers", body=(table,), folding="always", rank=1)
