"""One goal on every machine, as an outline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fleet.plan.question.goals import COMMITMENTS, Budget
from fleet.plan.report.document import camel_case
from fleet.plan.words import CAPACITIES, format_goal, format_mean_lengths, format_nodes
from fleet.report.outline import Element, Items, Next, Outline, Prose, Section, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_list, format_short, format_usd

if TYPE_CHECKING:
    from fleet.plan.anywhere import Market, Offer

_READING: Final = (
    "nodes: as the article's fleet, with its wait before the engines and its host time, on every machine alike; in brackets as one "
    "engine without them, if that differs. tok/s: as the article's fleet.",
    "cheapest: the cheapest region and its zones, commitments excluded; +9 means nine more regions have a price. Choose others "
    "with --capacity and --region; --format json lists all. A price is not capacity: zones are those that listed the machine "
    "in July 2026.",
    "confidence: calibrated figures were compared with runs of this model on this GPU. x/÷ 2: half or twice as much is "
    "possible. An upper bound is what the GPU's arithmetic and bandwidth allow; no kernel reaches it.",
    "USD/h includes known prices of the infrastructure around the nodes and is a lower bound.",
)
_WITHIN_BUDGET: Final = "≤ nodes: some prices of the infrastructure are unknown, so the budget may buy fewer."


def outline(market: Market) -> Outline:
    """The cheapest offer of each machine, cheapest first, then upper bounds and refused machines."""
    question = market.offers[0].plan.question if market.offers else None
    head: tuple[Element, ...] = ()
    if question is not None:
        said = f"`{question.profile.model}`, profile `{question.profile.name}`, {100 * question.load_share:.0f} % of full load"
        head = (Prose(said, "soft"),)
    best = _best_of_each(market)
    measured, bounds = ([one for one in best if one.is_bound is bound] for bound in (False, True))
    refused = tuple(_refused(market))
    budget = isinstance(market.question.goal, Budget)
    return Outline(
        title=f"{format_goal(market.question)}, {format_mean_lengths(market.question.workload)}",
        verdict="" if market.offers else "no machine reaches this goal",
        kind="plan, every machine",
        head=head,
        body=some(
            _table("machines", measured) if measured else None,
            Section(
                title=f"GPUs never measured: {'upper bounds on tok/s' if budget else 'lower bounds on nodes and cost'}",
                body=(_table("bounds", bounds),),
                id="never-measured",
            )
            if bounds
            else None,
            Section(title="Refused", body=(Items(refused, "warn"),)) if refused else None,
            Section(title="How to read this", body=tuple(map(Prose, (*_READING, *((_WITHIN_BUDGET,) * budget))))),
            _next((measured or bounds)[0]) if best else None,
            Next("add --sized-as engine", "to size without the losses of the article's fleet")
            if market.helped_by_engine
            else None,
        ),
        data=camel_case(
            {
                "offers": [_offer(offer) for offer in market.offers],
                "refused": [
                    {"machines": list(one.machines), "why": one.why, "nearest": one.nearest} for one in market.refused
                ],
            }
        ),
    )


def _refused(market: Market) -> Iterator[str]:
    """Machines by reason; with the nearest goal of each where no machine has an offer."""
    if not market.offers:
        for one in market.refused:
            nearest = f". Nearest: {one.nearest}" if one.nearest else ""
            yield f"{format_list(list(one.machines))}: {one.why}{nearest}"
        return
    by_reason: dict[str, list[str]] = {}
    for one in market.refused:
        by_reason.setdefault(one.why, []).extend(one.machines)
    for why, machines in by_reason.items():
        yield f"{format_list(machines)}: {why}"


def format_offer(offer: Offer) -> str:
    """An offer in one line: `15 a3-highgpu-1g (15 H100), spot in europe-north1: $19.24 an hour`."""
    plan = offer.plan
    nodes = format_nodes(plan.machines, offer.machine, plan.gpus)
    least = "at least " if plan.money.at_least else ""
    return f"{nodes}, {offer.capacity} in {offer.price.region}: {least}{format_usd(offer.usd_per_hour)} an hour"


def format_choice(offer: Offer) -> str:
    """The options on which the offer's figures depend."""
    return f"--machine {offer.machine.type} --capacity {offer.capacity} --region {offer.price.region}"


def _next(offer: Offer) -> Next:
    return Next(f"add {format_choice(offer)}", "for this machine's whole plan; with --write STACK as a stack file")


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
    within_budget = isinstance(plan.question.goal, Budget)
    least = "≥" if offer.is_bound and not within_budget else ""
    most = "≤" if offer.is_bound else ""
    yield offer.machine.type
    fewer = plan.nodes_as_engine
    engine = "" if fewer in (None, plan.nodes) else f" ({fewer + plan.spares:,})"
    # Prices that are unknown leave less of a budget for nodes.
    yield f"{'≤' if within_budget and plan.money.at_least else least}{plan.machines:,}{engine}"
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
        "nodes_as_engine": None if plan.nodes_as_engine is None else plan.nodes_as_engine + plan.spares,
        "usd_per_hour": offer.usd_per_hour,
        "at_least": plan.money.at_least or offer.is_bound,
        "prices_unknown": list(plan.money.bill.unknown),
        "total_tokens_per_s": {
            "value": rate.value,
            "low": rate.low,
            "high": rate.high,
            "as_engine": rate.as_engine,
        },
        "tpot_ms": plan.performance.tpot_ms.value,
        "ttft_ms": plan.performance.ttft_ms.value,
        "label": plan.label,
        "data_parallel": plan.deployment.engine.data_parallel,
        "tensor_parallel": plan.deployment.engine.tensor_parallel,
    }
