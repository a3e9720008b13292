"""One goal on every machine, as text or as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fleet.plan.question.goals import COMMITMENTS
from fleet.plan.report.json_document import json_text
from fleet.plan.words import CAPACITIES, format_goal, format_mean_lengths
from fleet.report.terminal import Page, Paper, Part
from fleet.report.words import format_list, format_short

if TYPE_CHECKING:
    from fleet.plan.anywhere import Market, Offer

_COLUMNS: Final = (
    ("machine", "<15"),
    ("nodes", ">5"),
    ("USD/h", ">9"),
    ("tok/s", ">8"),
    (" confidence", "<20"),
    ("cheapest", ""),
)


def print_market(paper: Paper, market: Market) -> None:
    """Print the cheapest offer of each machine, cheapest first, then upper bounds and refused machines."""
    page = Page(paper)
    if market.offers:
        question = market.offers[0].plan.question
        page.line((f"{format_goal(question)}, {format_mean_lengths(question.workload)}", "bold"))
        page.prose(
            f"{question.profile.model}, profile {question.profile.name}, {100 * question.load_share:.0f} % of full load",
            indent=0,
        )
    best = _best_of_each(market)
    for bound, title in ((False, ""), (True, "GPUs never measured: lower bounds on nodes and cost")):
        rows = [tuple(_row(one)) for one in best if one.is_bound is bound]
        if rows:
            page.title(title) if title else page.blank()
            page.table(_COLUMNS, rows, indent=0)
    page.title("How to read this")
    page.prose(
        "cheapest: the cheapest region and its zones, commitments excluded; +9 means nine more regions have a price. "
        "Choose others with --capacity and --region; --format json lists all. A price is not capacity: zones are those that "
        "listed the machine in July 2026."
    )
    page.prose(
        "confidence: calibrated figures were compared with runs of this model on this GPU. x/÷ 2: half or twice as much is "
        "possible. An upper bound is what the GPU's arithmetic and bandwidth allow; no kernel reaches it."
    )
    page.prose("USD/h includes known prices of the infrastructure around the nodes and is a lower bound.")
    for refused in market.refused:
        page.prose(f"{format_list(list(refused.machines))}: {refused.why}", mark="· ", style="yellow")
    page.print()


def market_json(market: Market) -> str:
    """Every offer and every refusal."""
    return json_text(
        {
            "offers": [_offer(one) for one in market.offers],
            "refused": [{"machines": list(one.machines), "why": one.why} for one in market.refused],
        }
    )


def _best_of_each(market: Market) -> Sequence[Offer]:
    best: dict[str, Offer] = {}
    # A commitment pays for one or three years, so it counts only where nothing else is offered.
    for offer in sorted(market.offers, key=lambda one: one.capacity in COMMITMENTS):
        best.setdefault(offer.machine.type, offer)
    return [one for one in market.offers if one in best.values()]


def _row(offer: Offer) -> Iterator[Part]:
    plan = offer.plan
    least = "≥" if offer.is_bound else ""
    most = "≤" if offer.is_bound else ""
    yield offer.machine.type
    yield f"{least}{plan.machines:,}", "bold"
    yield f"{least}{offer.usd_per_hour:,.2f}", "bold cyan"
    yield f"{most}{format_short(plan.performance.total_tokens_per_s.value)}"
    yield f" {plan.label}"
    more = f" +{len(offer.dearer)}" if offer.dearer else ""
    yield f"{offer.capacity} {offer.price.region}-{offer.price.zones or '?'}{more}", "dim"


def _offer(offer: Offer) -> dict[str, Any]:
    plan = offer.plan
    rate = plan.performance.total_tokens_per_s
    return {
        "machine": offer.machine.type,
        "gpu": offer.machine.gpu.name,
        "gpus": offer.machine.gpus,
        "capacity": offer.capacity,
        "capacity_label": CAPACITIES[offer.capacity],
        "region": offer.price.region,
        "zones": [f"{offer.price.region}-{letter}" for letter in offer.price.zones],
        "price_date": offer.price.date,
        "usd_per_node_hour": offer.price.usd,
        "dearer": [{"region": one.region, "usd_per_node_hour": one.usd, "zones": one.zones} for one in offer.dearer],
        "nodes": plan.machines,
        "usd_per_hour": offer.usd_per_hour,
        "at_least": plan.money.at_least or offer.is_bound,
        "prices_unknown": list(plan.money.bill.unknown),
        "total_tokens_per_s": {"value": rate.value, "low": rate.low, "high": rate.high},
        "tpot_ms": plan.performance.tpot_ms.value,
        "ttft_ms": plan.performance.ttft_ms.value,
        "label": plan.label,
        "data_parallel": plan.deployment.engine.data_parallel,
        "tensor_parallel": plan.deployment.engine.tensor_parallel,
    }
