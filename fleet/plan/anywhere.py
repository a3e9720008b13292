"""One goal on every machine: how many nodes each takes, and what they cost in every region and way that has a price; cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from facts import prices
from facts.machines import MACHINES, Machine
from facts.prices import Price
from fleet.plan.plan import Plan
from fleet.plan.planning import plan
from fleet.plan.question.asking import Asked, NoFitError, question_of
from fleet.plan.question.goals import CAPACITIES, Budget, Capacity, PlanImpossibleError, way_of

_LEAST_VCPU_PER_GPU: Final = 6
"""Measured on an H200: an engine keeps 1.1 to 1.3 cores busy, its API server up to one more. Assumed: the rest is GKE's and margin. Of
machines with the same GPUs the smallest with as many is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The goal on one machine, bought one way where that is cheapest."""

    machine: Machine
    capacity: Capacity
    price: Price
    """Of a node-hour, with its region and zones."""
    dearer: tuple[Price, ...]
    """The same in other regions, cheapest first."""
    plan: Plan

    @property
    def usd_per_hour(self) -> float:
        """Nodes and all around them, known prices only."""
        return self.plan.money.usd_per_hour

    @property
    def is_bound(self) -> bool:
        """Whether the machine's GPU was never measured, so that it takes at least so many nodes."""
        return self.plan.basis == "upper bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Machines without an offer, and why."""

    machines: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Every machine's answer."""

    offers: tuple[Offer, ...]
    """Cheapest first, or most tokens first for a budget; those that are bounds after the others."""
    refused: tuple[Refused, ...]


def market(asked: Asked, *, capacity: Capacity | None = None, region: str | None = None) -> Market:
    """The goal on every machine. `capacity` and `region` leave only those. Raises AskingError for options that make no question."""
    question_of(replace(asked, machine=None, model=None, capacity="spot"))  # refuses what no machine changes
    offers: list[Offer] = []
    refused: dict[str, list[str]] = {}
    for machine in _machines():
        try:
            offers += _offers(replace(asked, machine=machine.type), machine, capacity, region)
        except NoFitError:
            refused.setdefault("the model does not fit its GPUs", []).append(machine.type)
        except PlanImpossibleError as error:
            refused.setdefault(error.why, []).append(machine.type)
    return Market(
        offers=tuple(sorted(offers, key=_order)),
        refused=tuple(Refused(machines=tuple(types), why=why) for why, types in refused.items()),
    )


def _machines() -> Iterator[Machine]:
    """Of machines with the same GPUs the smallest that feeds them."""
    seen = set()
    for machine in sorted(MACHINES.values(), key=lambda one: one.vcpu):
        kind = machine.gpu.name, machine.gpus
        if kind not in seen and machine.vcpu >= _LEAST_VCPU_PER_GPU * machine.gpus:
            seen.add(kind)
            yield machine


def _offers(asked: Asked, machine: Machine, capacity: Capacity | None, region: str | None) -> Iterator[Offer]:
    """One offer for each way that has a price. Raises PlanImpossibleError where none has."""
    first: Plan | None = None
    found = False
    for way in CAPACITIES if capacity is None else (capacity,):
        listed = _listed(machine, way, region)
        if not listed:
            continue
        found = True
        best, *dearer = listed
        if first is None or isinstance(first.question.goal, Budget):
            answer = plan(question_of(replace(asked, capacity=way, region=best.region)))
        else:
            answer = plan(replace(first.question, capacity=way, region=best.region))
        first = first or answer
        yield Offer(machine=machine, capacity=way, price=best, dearer=tuple(dearer), plan=answer)
    if not found:
        where = "anywhere" if region is None else f"in {region}"
        raise PlanImpossibleError(
            f"no price is published {where} as {capacity or 'any way that Google sells it'}", "another region"
        )


def _listed(machine: Machine, capacity: Capacity, region: str | None) -> Sequence[Price]:
    if way_of(capacity) not in machine.ways or capacity not in prices.MODES:
        return ()
    return [one for one in prices.published(machine.type, capacity) if region in (None, one.region)]


def _order(offer: Offer) -> tuple[bool, float]:
    if isinstance(offer.plan.question.goal, Budget):
        return offer.is_bound, -offer.plan.performance.total_tokens_per_s.value
    return offer.is_bound, offer.usd_per_hour
