"""Formats prices and published figures for all reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from facts.cost import HOURS_PER_MONTH, format_indication
from facts.figures import published_nodes
from facts.texts import plural
from fleet.report.words import format_list, format_usd

if TYPE_CHECKING:
    from facts.cost import Bill, LineItem
    from fleet.preview.report.model import Fleet, Report
    from settings.derived.figures import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One formatted line of a bill."""

    name: str
    quantity: str
    """For example "12 × 32.61 a node-hour"."""
    dated: str
    """Date of the list price; "stated" for a price from the stack file, empty if unknown."""
    usd_per_hour: float | None


def bill_lines(bill: Bill) -> Iterator[BillLine]:
    """The lines of the bill."""
    return map(bill_line, bill.items)


def bill_line(item: LineItem) -> BillLine:
    """One item as a line."""
    stated = "" if item.unit_price_usd is None else "stated"
    return BillLine(
        name=item.name,
        quantity=_quantity(item),
        dated=item.price.date if item.price is not None else stated,
        usd_per_hour=item.usd_per_hour,
    )


def format_once(bill: Bill) -> Iterator[str]:
    """One-time costs, not part of the hourly bill."""
    for item in bill.once:
        usd = None if item.unit_price_usd is None else item.unit_price_usd * item.quantity
        amount = "unknown" if usd is None else f"{format_usd(usd)} ({_quantity(item)})"
        yield f"once: {item.name}, {amount}"


def _quantity(item: LineItem) -> str:
    unit = item.unit.removesuffix("-hour").removesuffix("-month")
    number = f"{item.quantity:,.0f}" if item.quantity == int(item.quantity) else f"{item.quantity:,.1f}"
    amount = f"{number} {unit}" if item.quantity == 1 or unit.endswith(("GiB", "/s")) else f"{number} {unit}s"
    if item.unit_price_usd is None:
        return amount
    return f"{amount} × {format_usd(item.unit_price_usd)}{' a month' if item.unit.endswith('-month') else ''}"


def format_size(fleet: Fleet) -> str:
    """Size of a fleet: `12 A4 nodes (96 B200)`, with the canary's share."""
    return ", ".join(filter(None, (_nodes(fleet), fleet.canary)))


def _nodes(fleet: Fleet) -> str:
    if fleet.nodes is None:
        return f"{fleet.family} nodes ({fleet.gpus_per_node} {fleet.gpu} each), replicas managed externally"
    if not fleet.nodes:
        return f"paused, 0 {fleet.family} nodes"
    fewest = "" if fleet.fewest_nodes is None else f"{fleet.fewest_nodes} to "
    return f"{fewest}{plural(fleet.nodes, f'{fleet.family} node')} ({fewest and 'at most '}{fleet.gpus:,} {fleet.gpu})"


def format_nature(reports: Sequence[Report]) -> str:
    """Limits of an offline preview."""
    made_up = any(report.mode == "known" for report in reports)
    return (
        "The program ran against a recorder, without credentials, provider checks or comparison with the "
        f"live state. Cloud ids and addresses are {'placeholders' if made_up else 'unknown'}."
    )


def format_no_figure(report: Report) -> str:
    """Why no published figure is near, and which node counts have one for this stack's routing."""
    if not report.figures.replicas:
        return "Paused: no node serves."
    nodes, reason = published_nodes(report.fleet.routing), report.figures.match.reason
    if not nodes:
        return f"{reason}; the article has none for this endpoint."
    return f"{reason}; the article has figures for {format_list(map(str, nodes))} nodes of its own model and machine."


def format_hourly(bill: Bill) -> str:
    """The price, with the size of an autoscaled fleet: the bill tells how much is unknown."""
    total = bill.format_hourly_total()
    return total if bill.usd_per_hour is None else total.partition(" (")[0]


def format_priorities(bill: Bill) -> str:
    """Which of the machine priorities' prices the nodes have, where those differ; empty for every other stack."""
    nodes = bill.nodes
    if nodes.unit_price_usd is None or len(set(nodes.steps.values())) < 2:
        return ""
    each = ", ".join(f"{way} {'unknown' if usd is None else format_usd(usd)}" for way, usd in nodes.steps.items())
    return f"each at its dearest machine priority ({each})"


def format_price_origin(bill: Bill, items: Sequence[LineItem]) -> str:
    """Where the prices of these items come from: `list prices of europe-west4`, and which are the stack file's."""
    priced = [item for item in items if item.unit_price_usd is not None]
    stated = sum(item.price is None for item in priced)
    if not stated:
        return f"list prices of {bill.region}"
    if stated == len(priced):
        return "prices of the stack file"
    return f"list prices of {bill.region}; stated: of the stack file"


def format_per_million(figures: Figures) -> str:
    """Price of a million tokens at the published rate, or why it is unknown."""
    total, output = figures.usd_per_million_tokens, figures.usd_per_million_output_tokens
    if total is None:
        missing = "no published figure" if figures.total_tokens_per_s is None else "no price for the nodes"
        return f"a million tokens: unknown ({missing})"
    least = "at least " if figures.bill.unknown else ""
    text = f"a million tokens: {least}{format_usd(total)}"
    return (
        f"{text}, a million output tokens {format_usd(output)}, at the published rate" if output is not None else text
    )


def format_rate(report: Report) -> str:
    """The rate with its label: published, or estimated by the planner's model."""
    figures, figure = report.figures, report.figures.match.figure
    if figures.total_tokens_per_s and figure is not None:
        output = f", {figures.output_tokens_per_s:,} output" if figures.output_tokens_per_s else ""
        return f"{figures.total_tokens_per_s:,} tok/s total{output} ({figure.label})"
    return f"{report.modelled.short()}, no published figure" if report.modelled is not None else "no published figure"


def format_total_rate(report: Report) -> str:
    """The rate of input and output tokens together, for a table: `95,317 tok/s (published, vLLM 0.18.0)`."""
    figures, figure, modelled = report.figures, report.figures.match.figure, report.modelled
    if figures.total_tokens_per_s and figure is not None:
        return f"{figures.total_tokens_per_s:,} tok/s ({figure.label})"
    if modelled is None:
        return "no published figure"
    return f"{modelled.total_tokens_per_s.value:,.0f} tok/s ({modelled.performance.label}, the model's estimate)"


def format_residual(bill: Bill) -> Iterator[str]:
    """One-time costs, costs while paused, and costs after destroy."""
    yield from format_once(bill)
    by_schedule = bill.usd_per_month_by_schedule
    if by_schedule is not None and bill.usd_per_hour is not None:
        least, most = "at least " if bill.unknown else "", format_usd(bill.usd_per_hour * HOURS_PER_MONTH)
        yield f"a month of 730 hours: {least}{format_usd(by_schedule)} at the scheduled minimum, {most} at full size"
    left = bill.residual_items
    yield f"at 0 replicas: {_amount(bill.residual_usd_per_hour, left, 'an hour', format_indication(left))}"
    kept = bill.after_destroy_items
    if kept:
        names = ", ".join(item.name for item in kept)
        yield f"after destroy: {_amount(bill.after_destroy_usd_per_month, kept, 'a month')}; kept: {names}"
    else:
        yield "after destroy: no cost remains"


def _amount(known: float, items: tuple[LineItem, ...], period: str, indication: str = "") -> str:
    unknown = sum(item.usd_per_hour is None for item in items)
    more = f", {indication}" if indication else ""
    if unknown == len(items) and items:
        return f"unknown ({plural(unknown, 'price')} without a dated source{more})"
    return (
        f"at least {format_usd(known)} {period} ({plural(unknown, 'price')} unknown{more})"
        if unknown
        else f"{format_usd(known)} {period}"
    )
