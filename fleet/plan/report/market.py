"""One goal on every machine, as an outline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fleet.plan.question.goals import COMMITMENTS
from fleet.plan.report.document import camel_case
from fleet.plan.words import CAPACITIES, format_goal, format_mean_lengths
from fleet.report.outline import Element, Items, Outline, Prose, Section, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_list, format_short

if TYPE_CHECKING:
    from fleet.plan.anywhere import Market, Offer

_READING: Final = (
    "cheapest: the cheapest region and its zones, commitments excluded; +9 means nine more regions have a price. Choose others "
    "with --capacity and --region; --format json lists all. A price is not capacity: zones are those that listed the machine "
    "in July 2026.",
    "confidence: calibrated figures were compared with runs of this model on this GPU. x/÷ 2: half or twice as much is "
    "possible. An upper bound is what the GPU's arithmetic and bandwidth allow; no kernel reaches it.",
    "USD/h includes known prices of the infrastructure around the nodes and is a lower bound.",
)


def outline(market: Market) -> Outline:
    """The cheapest offer of each machine, cheapest first, then upper bounds and refused machines."""
    question = market.offers[0].plan.question if market.offers else None
    head: tuple[Element, ...] = ()
    if question is not None:
        said = f"`{question.profile.model}`, profile `{question.profile.name}`, {100 * question.load_share:.0f} % of full load"
        head = (Prose(said, "soft"),)
    best = _best_of_each(market)
    measured, bounds = ([one for one in best if one.is_bound is bound] for bound in (False, True))
    refused = tuple(f"{format_list(list(one.machines))}: {one.why}" for one in market.refused)
    return Outline(
        title=f"{format_goal(question)}, {format_mean_lengths(question.workload)}" if question else "no machine",
        kind="plan, every machine",
        head=head,
        body=some(
            _table("machines", measured) if measured else None,
            Section(
                title="GPUs never measured: lower bounds on nodes and cost",
                body=(_table("bounds", bounds),),
                id="never-measured",
            )
            if bounds
            else None,
            Section(title="Refused", body=(Items(refused, "warn"),)) if refused else None,
            Section(title="How to read this", body=tuple(map(Prose, _READING))),
        ),
        data=camel_case(
            {
                "offers": [_offer(offer) for offer in market.offers],
                "refused": [{"machines": list(one.machines), "why": one.why} for one in market.refused],
            }
        ),
    )


def _table(id_: str, offers: Sequence[Offer]) -> Table:
    return Table(
        id=id_,
        caption="The cheapest offer of each machine",
        columns=(*texts("machine"), *numbers("nodes", "USD/h", "tok/s"), *texts("confidence", "cheapest")),
        rows=tuple(tuple(map(Cell, _row(offer))) for offer in offers),
    )


def _best_of_each(market: Market) -> Sequence[Offer]:
    best: dict[str, Offer] = {}
    # A commitment pays for one or three years, so it counts only where nothing else is offered.
    for offer in sorted(market.offers, key=lambda one: one.capacity in COMMITMENTS):
        best.setdefault(offer.machine.type, offer)
    return [one for one in market.offers if one in best.values()]


def _row(offer: Offer) -> Iterator[str]:
    plan = offer.plan
    least = "≥" if offer.is_bound else ""
    most = "≤" if offer.is_bound else ""
    yield offer.machine.type
    yield f"{least}{plan.machines:,}"
    yield f"{least}{offer.usd_per_hour:,.2f}"
    yield f"{most}{format_short(plan.performance.total_tokens_per_s.value)}"
    yield plan.label
    more = f" +{len(offer.dearer)}" if offer.dearer else ""
    yield f"{offer.capacity} {offer.price.region}-{offer.price.zones or '?'}{more}"


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
