"""One goal on every machine, as an outline of at most 25 lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from facts.texts import plural
from fleet.plan.question.goals import Budget
from fleet.plan.report.document import plain
from fleet.plan.words import format_goal, format_mean_lengths, format_nodes
from fleet.report.outline import Next, Outline, Prose, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_duration, format_list, format_short, format_usd

if TYPE_CHECKING:
    from fleet.plan.anywhere import Market, Offer

_MOST_ROWS: Final = 9


def outline(market: Market, *, command: Callable[[Offer], str] = lambda _: "add") -> Outline:
    """The cheapest offer of each machine, cheapest first, and in one line what was left out. `command`: what takes an offer's machine."""
    best = market.best_of_each()
    shown = ([one for one in best if not one.is_bound] or best)[:_MOST_ROWS]
    return Outline(
        title=f"{format_goal(market.question)}, {format_mean_lengths(market.question.workload)}",
        verdict=_verdict(market, shown),
        kind="plan, every machine",
        head=some(Prose(_about(shown), "soft") if shown else None),
        body=some(
            _table(shown) if shown else None,
            *map(Prose, _flex_start(market)),
            Prose(f"Left out: {'; '.join(_left_out(market, best, shown))}. `--format json` has all."),
            Next(f"{command(shown[0])} {format_choice(shown[0])}", "for this machine's plan; --write STACK writes it")
            if shown
            else None,
        ),
        data={
            "offers": [_offer(offer) for offer in market.offers],
            "refused": [plain(one) for one in market.refused],
        },
    )


def _verdict(market: Market, shown: Sequence[Offer]) -> str:
    if shown:
        return ("GPU never measured: " if shown[0].is_bound else "") + format_offer(shown[0])
    nearest = market.nearest()
    return "no machine reaches this goal" + (
        f"; nearest, on {nearest.machines[0]}: {nearest.nearest}" if nearest else ""
    )


def _about(shown: Sequence[Offer]) -> str:
    """Model, profile and load of the first, and of the machines that are planned otherwise."""
    planned: dict[str, list[str]] = {}
    for offer in shown:
        question = offer.plan.question
        how = f"profile `{question.profile.name}`, {100 * question.load_share:.0f} % of full load"
        planned.setdefault(how, []).append(offer.machine.type)
    (usual, _), *others = planned.items()
    return "; ".join(
        (
            f"`{shown[0].plan.question.profile.model}`, {usual}",
            *(f"{format_list(machines)}: {how}" for how, machines in others),
        )
    )


def _left_out(market: Market, best: Sequence[Offer], shown: Sequence[Offer]) -> Iterator[str]:
    if dearer := [one for one in best if one not in shown and one.is_bound == shown[0].is_bound]:
        yield plural(len(dearer), "dearer machine")
    bounds = [one for one in best if one.is_bound and one not in (*shown, *dearer)]
    if bounds:
        nodes = "" if isinstance(market.question.goal, Budget) else "at least "
        yield f"{plural(len(bounds), 'machine')} whose GPU was never measured, the best with {nodes}{format_offer(bounds[0])}"
    by_reason: dict[str, list[str]] = {}
    for one in market.refused:
        by_reason.setdefault(one.why, []).extend(one.machines)
    for why, machines in by_reason.items():
        yield f"{format_list(machines) if not shown else plural(len(machines), 'machine')}: {why}"
    yield "other regions and capacities"


def _flex_start(market: Market) -> Iterator[str]:
    """Where waiting for nodes makes another choice of what is cheapest by the hour."""
    offers = [one for one in market.offers if not one.is_bound and one.plan.batch is not None]
    if (
        offers
        and (by_hour := min(offers, key=lambda one: one.usd_per_hour)).capacity == "flex-start" != offers[0].capacity
    ):
        batch = by_hour.plan.batch
        assert batch is not None
        yield (
            f"Flex-start is cheaper by the hour ({format_choice(by_hour)}) and dearer with the wait for its nodes: "
            f"{format_usd(by_hour.usd)}, in {format_duration(3_600 * batch.total_hours)}."
        )


def format_offer(offer: Offer) -> str:
    """An offer in one line: `15 a3-highgpu-1g (15 H100), spot in europe-north1: $19.24 an hour`."""
    plan = offer.plan
    nodes = format_nodes(plan.nodes, offer.machine, plan.gpus)
    least = "at least " if plan.money.at_least else ""
    most = "at most " if plan.money.at_least and isinstance(plan.question.goal, Budget) else ""
    of = "an hour" if plan.batch is None else f"in {format_duration(3_600 * plan.batch.total_hours)}"
    return f"{most}{nodes}, {offer.capacity} in {offer.price.region}: {least}{format_usd(offer.usd)} {of}"


def format_choice(offer: Offer) -> str:
    """The options on which the offer's figures depend."""
    return f"--machine {offer.machine.type} --capacity {offer.capacity} --region {offer.price.region}"


def _table(offers: Sequence[Offer]) -> Table:
    of_batch = offers[0].plan.batch is not None
    return Table(
        id="machines",
        caption="The cheapest offer of each machine",
        columns=(
            *texts("machine"),
            *numbers("nodes", "USD" if of_batch else "USD/h", "tok/s"),
            *texts("confidence", "cheapest"),
        ),
        rows=tuple(tuple(map(Cell, _row(offer))) for offer in offers),
    )


def _row(offer: Offer) -> Iterator[str]:
    plan = offer.plan
    within_budget = isinstance(plan.question.goal, Budget)
    least = "≥" if offer.is_bound and not within_budget else ""
    yield offer.machine.type
    # Prices that are unknown leave less of a budget for nodes.
    yield f"{'≤' if within_budget and plan.money.at_least else least}{plan.nodes:,}"
    yield f"{'≥' if plan.money.at_least else least}{offer.usd:,.2f}"
    yield f"{'≤' if offer.is_bound else ''}{format_short(plan.performance.total_tokens_per_s.value)}"
    yield plan.label
    yield f"{offer.capacity} {offer.price.region}"


def _offer(offer: Offer) -> dict[str, Any]:
    plan = offer.plan
    return {
        "machine": offer.machine.type,
        "gpu": offer.machine.gpu.name,
        "gpus": offer.machine.gpus,
        "capacity": offer.capacity,
        "price": plain(offer.price),
        "dearer": plain(offer.dearer),
        "nodes": plan.nodes,
        "usdPerHour": offer.usd_per_hour,
        "usd": offer.usd,
        "atLeast": plan.money.at_least or offer.is_bound,
        "totalTokensPerS": plain(plan.performance.total_tokens_per_s),
        "ttftMs": plain(plan.performance.ttft_ms),
        "tpotMs": plain(plan.performance.tpot_ms),
        "label": plan.label,
        "dataParallel": plan.deployment.engine.data_parallel,
        "tensorParallel": plan.deployment.engine.tensor_parallel,
    }
