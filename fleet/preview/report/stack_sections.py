"""Sections about one stack: what it is, its throughput, its bill, its findings and its resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.texts import plural
from fleet.plan.words import format_figure
from fleet.preview.compare.wording import format_value
from fleet.preview.policy_config import config_file
from fleet.preview.report.wording import (
    bill_lines,
    format_bill_title,
    format_no_figure,
    format_per_million,
    format_rate,
    format_residual,
    format_size,
)
from fleet.report.outline import Box, Element, Findings, Items, Next, Prose, Section, Tree, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_usd

if TYPE_CHECKING:
    from facts.cost import Bill, LineItem
    from fleet.preview.report.model import Report


def what_it_is(report: Report) -> Iterator[Element]:
    """Size, model, price and rate, and what costs money at once."""
    fleet = report.fleet
    yield Prose(f"{format_size(fleet)} {fleet.bought} in {', '.join(fleet.zones)}")
    apart = f", {fleet.shape}" if fleet.shape else ""
    yield Prose(f"{fleet.model} @ {fleet.revision[:12]}, vLLM {fleet.vllm}, profile {fleet.profile}{apart}")
    if fleet.platform is not None:
        yield Prose(f"on the cluster of {fleet.platform}")
    yield Prose(f"{report.figures.bill.format_hourly_total(indicates=True)} · {format_rate(report)}", "strong")
    for bound in report.bounds:
        yield Prose(bound.text())
    for danger in report.dangers:
        yield Box(body=(Prose(danger),))


def stack_section(report: Report) -> Section:
    """What the stack is after a change."""
    return Section(title="The stack", body=tuple(what_it_is(report)), rank=1)


def throughput_section(report: Report) -> Section:
    """The published figure, or why there is none, and the model's estimate."""
    figures, match = report.figures, report.figures.match
    modelled = report.modelled
    estimate = Prose(modelled.format()) if modelled is not None else None
    assumed = Prose(modelled.assumed, "soft") if modelled is not None and modelled.assumed else None
    if match.figure is None:
        why = Prose(format_no_figure(report))
        return Section(title="Throughput", body=some(why, estimate, assumed), rank=1)
    differences = _differences(report)
    if figures.proven:
        body = some(
            Prose(format_figure(match.figure), "strong"),
            Prose(f"{match.figure.title}: {match.reason}"),
            *(Prose(f"also published: {one}", "soft") for one in match.figure.also_published),
            differences,
        )
        return Section(title="Throughput", remark=match.figure.label, body=body, rank=1)
    body = some(
        Prose(f"nearest: {match.figure.title}, {format_figure(match.figure)} ({match.figure.label})"),
        Prose(match.reason, "warn"),
        estimate,
        assumed,
        differences,
    )
    return Section(title="Throughput", remark="no published figure for this shape", body=body, rank=1)


def _differences(report: Report) -> Section | None:
    match = report.figures.match
    if not match.differences:
        return None
    origin = match.figure.origin if match.figure is not None else "published"
    table = Table(
        id=f"differences-{report.recording.stack}",
        caption="Settings in which this stack differs from the published run",
        columns=texts("setting", origin, "here", "justification"),
        rows=tuple(
            (
                Cell(difference.field, style="mono"),
                Cell(format_value(difference.published), style="mono"),
                Cell(format_value(difference.ours), style="mono"),
                Cell(difference.argument or "not argued"),
            )
            for difference in match.differences
        ),
    )
    title = f"{plural(len(match.differences), 'difference')} from the {origin} run"
    # A terminal gets the line that counts them: `reason` names those that matter.
    return Section(title=title, body=(table,), folding="always")


def cost_section(report: Report) -> Section:
    """The bill, line by line, and what it leaves out."""
    bill, figures = report.figures.bill, report.figures
    total = f"{'at least ' if bill.unknown else ''}{format_usd(bill.usd_per_hour_known)}"
    reasons = {item.name: _why_unknown(item) for item in bill.items if item is not bill.nodes} | {bill.nodes.name: ""}
    what = "total" if bill.usd_per_hour is not None else "total without the nodes"
    table = Table(
        id=f"bill-{report.recording.stack}",
        caption=f"Bill: {format_bill_title(bill)}",
        columns=(*texts("item"), *numbers("quantity", "price of", "USD an hour")),
        rows=tuple(
            (
                Cell(line.name, note=reasons[line.name]),
                Cell(line.quantity, style="dim"),
                Cell(line.dated, style="dim"),
                Cell(format_usd(line.usd_per_hour) if line.usd_per_hour is not None else "unknown"),
            )
            for line in bill_lines(bill)
        ),
        foot=(Cell(what), Cell(""), Cell(""), Cell(total)),
    )
    notes = (*_unknown_prices(bill), format_per_million(figures), *format_residual(bill))
    not_billed = Prose(f"Not on the bill: {'; '.join(bill.excluded)}.", "soft")
    return Section(title="Cost", remark=format_bill_title(bill), body=(table, Items(notes), not_billed), rank=2)


def _why_unknown(item: LineItem) -> str:
    """The reason, and what the item costs at the nearest region's price."""
    about = item.indicated_usd_per_hour
    return (item.reason or "") + (f": about {format_usd(about)} an hour" if about is not None else "")


def _unknown_prices(bill: Bill) -> Iterator[str]:
    if bill.nodes.reason is not None:
        yield f"nodes: {bill.nodes.reason}"
    if bill.unknown:
        what = "price has" if len(bill.unknown) == 1 else "prices have"
        yield f"{len(bill.unknown)} {what} no dated source; the total is a lower bound"


def finding_sections(report: Report) -> Iterator[Section]:
    """What the checks and the program found, what the profile repeats on purpose, and notes."""
    unexpected, deliberate = (
        tuple(finding for finding in report.findings if (finding.severity == "deliberate") is on_purpose)
        for on_purpose in (False, True)
    )
    said = _said_by_program(report)
    if unexpected or said:
        body: tuple[Element, ...] = (Findings((*unexpected, *said)),)
        yield Section(title=f"Findings ({len(unexpected) + len(said)})", body=body, tone="warn", rank=1)
    if deliberate:
        title = f"Deliberate exceptions ({len(deliberate)})"
        remark = f"profile {report.fleet.profile}"
        yield Section(title=title, remark=remark, body=(Findings(deliberate),), folding="page", rank=2)
    if report.notices:
        title = f"Notes ({len(report.notices)})"
        yield Section(title=title, body=(Findings(report.notices),), folding="page", rank=2)


def _said_by_program(report: Report) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            id="program",
            subject=diagnostic.urn.rpartition("::")[2] or "the program",
            severity="error" if diagnostic.severity == "error" else "warning",
            found=diagnostic.message,
        )
        for diagnostic in report.diagnostics
    )


def resource_section(report: Report) -> Section:
    """Every resource that is created."""
    counted = report.counted
    parts = [plural(counted["resource"], "resource"), plural(counted["component"], "component")]
    if counted["provider"]:
        parts.append(plural(counted["provider"], "provider"))
    remark = f"{len(report.changes)} to create: {', '.join(parts)}, the stack"
    return Section(title="Resources", remark=remark, body=(Tree(report.tree),), folding="page", rank=2)


def about_section(report: Report) -> Section:
    """What the reader should know about this preview itself."""
    written = [] if report.out is None else [f"Manifests: {report.out}"]
    remarks = (*report.remarks, *written)
    return Section(title="About this preview", body=(Items(remarks),) if remarks else (), rank=1)


def next_section(report: Report) -> Section:
    """What to type next."""
    return Section(title="Next", body=tuple(_next_steps(report)), only=("text",))


def _next_steps(report: Report) -> Iterator[Element]:
    stack = report.recording.stack
    if report.policies.mandatory:
        yield Prose("fix the blocking policy violations, then preview again")
        return
    if report.fleet.stand_in_project:
        yield Next("pulumi login")
        yield Next(f"pulumi stack init {stack}")
        yield Next(f"pulumi config set gcp:project MY-PROJECT --stack {stack}")
    yield Next(f"fleet doctor --for up --stack {stack}")
    judged = f" --policy-pack policy --policy-pack-config {config_file(stack)}"
    yield Next(f"pulumi preview --stack {stack}{judged if report.policies.state == 'judged' else ''}")
