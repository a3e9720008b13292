"""Compare one goal across machines, capacities and regions by price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from facts import prices
from facts.machines import MACHINES, Machine
from facts.prices import Price
from fleet.plan.asked import DEFAULT_CAPACITY, Asked, Capacity
from fleet.plan.plan import Plan
from fleet.plan.planning import plan_offer
from fleet.plan.question.asking import NoFitError, question_of
from fleet.plan.question.goals import CAPACITIES, COMMITMENTS, Budget, PlanImpossibleError, PlanQuestion, way_of

_LEAST_VCPU_PER_GPU: Final = 6
"""Measured on an H200: an engine uses 1.1 to 1.3 cores, its API server up to one more. Assumed: the rest is for GKE and margin. Among
machines with the same GPUs, the smallest with this many is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The goal on one machine with one capacity, in its cheapest region."""

    machine: Machine
    capacity: Capacity
    price: Price
    """Price of a node-hour, with region and zones."""
    dearer: tuple[Price, ...]
    """Prices in other regions, cheapest first."""
    plan: Plan

    @property
    def usd_per_hour(self) -> float:
        """Nodes and infrastructure, known prices only."""
        return self.plan.money.usd_per_hour

    @property
    def usd(self) -> float:
        """What the goal costs: a batch from its first command to its last answer, all else an hour. Known prices only."""
        batch = self.plan.batch
        return self.usd_per_hour if batch is None or batch.usd is None else batch.usd

    @property
    def is_bound(self) -> bool:
        """Whether the GPU was never measured, so that the node count is a lower bound."""
        return self.plan.is_bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Machines without an offer, and why."""

    machines: tuple[str, ...]
    why: str
    nearest: str = ""
    """The nearest goal that these machines reach."""
    short: float | None = None
    """How many times as much is asked as they reach; None where the nearest is no amount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Offers and refusals over all machines."""

    question: PlanQuestion
    """The goal, as asked of the article's machine."""
    offers: tuple[Offer, ...]
    """Cheapest first, or most tokens first for a budget; upper bounds last."""
    refused: tuple[Refused, ...]

    def nearest(self) -> Refused | None:
        """Of the machines without an offer those that come nearest to the goal; None if none has a nearest goal."""
        told = (one for one in self.refused if one.nearest)
        return min(told, key=lambda one: inf if one.short is None else one.short, default=None)

    def best_of_each(self) -> Sequence[Offer]:
        """The best offer of each machine, best first."""
        best: dict[str, Offer] = {}
        # A commitment pays for one or three years, so it counts only where nothing else is offered.
        for offer in sorted(self.offers, key=lambda one: one.capacity in COMMITMENTS):
            best.setdefault(offer.machine.type, offer)
        return [one for one in self.offers if one in best.values()]

    def recommended(self, zone: str | None) -> Offer | None:
        """The best offer on a measured machine that a zone, or this one, is known to have."""
        for offer in self.best_of_each():
            zones = [f"{offer.price.region}-{letter}" for letter in offer.price.zones]
            if not offer.is_bound and zones and zone in (None, *zones):
                return offer
        return None


def market(asked: Asked) -> Market:
    """Plan the goal on every machine, with the capacity and region asked for or all. Raises AskingError for invalid options."""
    # Refuses what is invalid on every machine.
    question = question_of(replace(asked, machine=None, model=None, capacity=DEFAULT_CAPACITY))
    offers: list[Offer] = []
    refused: dict[tuple[str, str, float | None], list[str]] = {}
    for machine in _machines():
        try:
            offers += offers_on(replace(asked, machine=machine.type), machine)
        except NoFitError:
            refused.setdefault(("the model does not fit its GPUs", "", None), []).append(machine.type)
        except PlanImpossibleError as error:
            refused.setdefault((error.why, error.nearest, error.short), []).append(machine.type)
    return Market(
        question=question,
        offers=tuple(sorted(offers, key=_order)),
        refused=tuple(
            Refused(machines=tuple(types), why=why, nearest=nearest, short=short)
            for (why, nearest, short), types in refused.items()
        ),
    )


def beside(asked: Asked, question: PlanQuestion) -> Offer | None:
    """The best other offer on a measured machine for a question that has no plan; it may be the same machine, bought otherwise."""
    found = market(replace(asked, machine=None, capacity=None, region=None, usd_per_node_hour=None))
    # Not the question's own choice, whose list price may reach what a stated price does not.
    asked_for = (question.machine, question.capacity, question.region)
    return next(
        (
            one
            for one in found.offers
            if not one.is_bound and (one.machine, one.capacity, one.price.region) != asked_for
        ),
        None,
    )


def _machines() -> Iterator[Machine]:
    """The smallest machine with enough vCPUs per GPU, for each GPU type and count."""
    seen = set()
    for machine in sorted(MACHINES.values(), key=lambda one: one.vcpu):
        kind = machine.gpu.name, machine.gpus
        if kind not in seen and machine.vcpu >= _LEAST_VCPU_PER_GPU * machine.gpus:
            seen.add(kind)
            yield machine


def offers_on(asked: Asked, machine: Machine) -> Iterator[Offer]:
    """One offer per capacity with a price, of the machine that `asked` names, too. Raises PlanImpossibleError if none has one."""
    first: Plan | None = None
    found = False
    for way in CAPACITIES if asked.capacity is None else (asked.capacity,):
        listed = _listed(machine, way, asked.region)
        if not listed:
            continue
        found = True
        best, *dearer = listed
        if first is None or isinstance(first.question.goal, Budget):
            answer = plan_offer(question_of(replace(asked, capacity=way, region=best.region)))
        else:
            answer = plan_offer(replace(first.question, capacity=way, region=best.region))
        first = first or answer
        yield Offer(machine=machine, capacity=way, price=best, dearer=tuple(dearer), plan=answer)
    if not found:
        where = "anywhere" if asked.region is None else f"in {asked.region}"
        raise PlanImpossibleError(
            f"no price is published {where} for {asked.capacity or 'any capacity'}", "another region"
        )


def _listed(machine: Machine, capacity: Capacity, region: str | None) -> Sequence[Price]:
    if way_of(capacity) not in machine.ways or capacity not in prices.MODES:
        return ()
    return [one for one in prices.published(machine.type, capacity) if region in (None, one.region)]


def _order(offer: Offer) -> tuple[bool, float]:
    if isinstance(offer.plan.question.goal, Budget):
        return offer.is_bound, -offer.plan.performance.total_tokens_per_s.value
    return offer.is_bound, offer.usd
