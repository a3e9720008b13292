"""Scale-up decisions: which nodes to request for pending pods, given free room and capacity. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.cloud.autoscaler_events import Trouble, no_machine, refused
from lab.cloud.node_objects import Template, template
from lab.cloud.offers import Offer
from lab.cloud.pod_needs import Amounts, PodNeeds
from lab.cloud.stock import Pool, Refusal, Stock

PodKey = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Room:
    """An existing or requested node, and its free resources."""

    template: Template
    free: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A node to request."""

    offer: Offer
    template: Template
    pods: tuple[PodKey, ...]
    """Pods that caused the request."""


@dataclass
class Memory:
    """State between decisions; times in simulated seconds."""

    closed_until: dict[tuple[Pool, str], float] = field(default_factory=dict)
    """Pools, by zone, without capacity, and when they are tried again."""
    refusals: dict[tuple[Pool, str], Trouble] = field(default_factory=dict)
    """Their reasons."""
    waiting_since: dict[tuple[str, Pool], float] = field(default_factory=dict)
    """Since when each priority of a class has been waited for."""


@dataclass
class Decision:
    """Result of one scan."""

    wanted: list[Wanted] = field(default_factory=list)
    troubles: dict[PodKey, Trouble] = field(default_factory=dict)
    """Pods without a node request, and why."""
    placed: set[PodKey] = field(default_factory=set)
    """Pods that fit an existing node: left to the scheduler."""
    look_again_at: float | None = None
    """When a backoff or a priority's wait ends."""

    def look_again(self, at_seconds: float) -> None:
        """Scan again at that moment or earlier."""
        if self.look_again_at is None or at_seconds < self.look_again_at:
            self.look_again_at = at_seconds


class Rooms:
    """Free resources, counted by kind of node: a thousand equal nodes are one entry."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self._counts: Counter[Room] = Counter(rooms)
        self._suits: dict[tuple[PodNeeds, Template], bool] = {}

    def put(self, needs: PodNeeds, pods: int) -> int:
        """Place as many of the pods as fit; returns their number."""
        left = pods
        for room in list(self._counts):
            if left == 0:
                break
            held = needs.amounts.times_in(room.free)
            if held == 0 or not self.suits(needs, room.template):
                continue
            number = self._counts[room]
            while left and number:
                taken = min(left, held)
                full = min(number, left // held) if taken == held else 1
                self._move(room, Room(room.template, room.free.minus(needs.amounts, taken)), full)
                left -= taken * full
                number -= full
        return pods - left

    def add(self, room: Room) -> None:
        """Add a node."""
        self._counts[room] += 1

    def suits(self, needs: PodNeeds, kind: Template) -> bool:
        """Whether the pod may run on this kind of node."""
        known = self._suits.get((needs, kind))
        if known is None:
            known = self._suits[needs, kind] = not kind.unmet(needs)
        return known

    def _move(self, before: Room, after: Room, number: int) -> None:
        self._counts[before] -= number
        if not self._counts[before]:
            del self._counts[before]
        self._counts[after] += number


class Market:
    """Google's capacity, its usage, and backoffs."""

    def __init__(
        self, stock: Stock, memory: Memory, in_use: Mapping[Pool, int], *, retry_seconds: float, ssd_gib: int = 0
    ) -> None:
        self.stock, self.memory, self.retry_seconds = stock, memory, retry_seconds
        self.ssd_gib = ssd_gib
        """Boot disks of these machines that are SSD Persistent Disk."""
        self.in_use = Counter(in_use)
        """Machines there and on their way."""

    def closed(self, offer: Offer, now_seconds: float) -> Trouble | None:
        """Why this offer cannot be met now. A pool that refused is not asked again before `retry_seconds` are over."""
        place = (offer.pool, offer.zone)
        if self.memory.closed_until.get(place, 0.0) > now_seconds:
            return self.memory.refusals[place]
        said = self._refusal(offer)
        if said is not None:
            self.memory.closed_until[place] = now_seconds + self.retry_seconds
            self.memory.refusals[place] = said
        return said

    def opens_at(self, offer: Offer) -> float:
        """When a pool that refused is asked again."""
        return self.memory.closed_until[offer.pool, offer.zone]

    def patient_until(self, offer: Offer, now_seconds: float) -> float:
        """Until when this priority is waited for before the next one is tried."""
        priority = (offer.compute_class or "", offer.pool)
        return self.memory.waiting_since.setdefault(priority, now_seconds) + offer.wait_seconds

    def take(self, offer: Offer) -> None:
        """One more machine is on its way."""
        self.in_use[offer.pool] += 1
        self.ssd_gib += offer.machine.ssd_gib
        self.memory.waiting_since.pop((offer.compute_class or "", offer.pool), None)

    def _refusal(self, offer: Offer) -> Trouble | None:
        stock = self.stock
        reason: Refusal | None = (
            stock.refusal(offer.pool, self.in_use, zone=offer.zone, project=offer.reservation_project)
            if offer.is_sold
            else "not sold"
        )
        needed, most = offer.machine.ssd_gib, stock.ssd_gib
        if reason is None and most is not None and needed and self.ssd_gib + needed > most:
            reason = "disk quota"
        if reason is None:
            return None
        return refused(
            reason,
            mode=offer.mode,
            machine=offer.machine,
            zone=offer.zone,
            name=offer.reservation or "",
            reservation=stock.reservations.get(offer.reservation or ""),
        )


def decide(
    waiting: Sequence[tuple[PodKey, PodNeeds]],
    there: Rooms,
    coming: Rooms,
    market: Market,
    offers: Callable[[PodNeeds, int], tuple[Offer, ...] | Trouble],
    now_seconds: float,
) -> Decision:
    """Machines for the pods that have no room on nodes, those there and those coming. `waiting` is in order of age."""
    decision = Decision()
    if not waiting:
        market.memory.waiting_since.clear()
    groups: dict[PodNeeds, list[PodKey]] = {}
    for key, needs in waiting:
        groups.setdefault(needs, []).append(key)
    for needs, keys in groups.items():
        placed = there.put(needs, len(keys))
        decision.placed.update(keys[:placed])
        left = keys[placed:]
        left = left[coming.put(needs, len(left)) :]
        if left:
            _ask(needs, left, coming, market, offers(needs, len(left)), now_seconds, decision)
    return decision


def _ask(
    needs: PodNeeds,
    left: list[PodKey],
    coming: Rooms,
    market: Market,
    found: tuple[Offer, ...] | Trouble,
    now: float,
    decision: Decision,
) -> None:
    """Request machines until every pod has one on its way or capacity runs out."""
    if isinstance(found, Trouble):
        decision.troubles.update(dict.fromkeys(left, found))
        return
    kinds = {offer: template(offer, needs) for offer in found}
    unmet = {offer: kind.unmet(needs) for offer, kind in kinds.items()}
    suitable = tuple(offer for offer in found if not unmet[offer])
    if not suitable:
        decision.troubles.update(dict.fromkeys(left, _mismatch(found[0], unmet[found[0]])))
        return
    while left:
        chosen = _first_open(suitable, market, now, decision)
        if isinstance(chosen, Trouble):
            decision.troubles.update(dict.fromkeys(left, chosen))
            return
        market.take(chosen)
        whole = chosen.machine.allocatable
        taken = min(len(left), needs.amounts.times_in(whole))
        decision.wanted.append(Wanted(offer=chosen, template=kinds[chosen], pods=tuple(left[:taken])))
        coming.add(Room(kinds[chosen], whole.minus(needs.amounts, taken)))
        del left[:taken]


def _first_open(suitable: tuple[Offer, ...], market: Market, now: float, decision: Decision) -> Offer | Trouble:
    """The first available offer, else the reason of the last one tried."""
    for offer in suitable:
        said = market.closed(offer, now)
        if said is None:
            return offer
        decision.look_again(market.opens_at(offer))
        trouble, patient_until = said, market.patient_until(offer, now)
        if patient_until > now:
            decision.look_again(patient_until)
            break
    return trouble


def _mismatch(offer: Offer, unmet: str) -> Trouble:
    return no_machine(
        "nap.pod.zonal.failing.predicates",
        "node(s) didn't match the pod's node affinity/selector, taints or volume",
        f"A new {offer.machine.name} node in {offer.zone} would not match the pod's {unmet}."
        if not unmet.startswith("a toleration")
        else f"A new {offer.machine.name} node would not accept the pod, which needs {unmet}.",
        "Change the pod's selectors, tolerations or volume so that a node can match all of them.",
    )
