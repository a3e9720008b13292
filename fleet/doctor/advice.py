"""How likely Spot machines are in a zone today, and how they did in the last 30 days, by Compute Engine's Advice API. Read-only.

Source: discovery document of Compute Engine API v1, revision 20261106, `advice.capacity` and `advice.capacityHistory`; what the figures
mean: Compute Engine docs, "View the availability of Spot VMs" and "View the preemption rate and pricing for Spot VMs". Not tried on a
project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from fleet.clients.errors import LiveError
from fleet.clients.side_by_side import side_by_side
from fleet.doctor.google import COMPUTE, Google
from fleet.report.outline import Items, Prose, Section, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import NOTHING, format_duration, format_percent

LIKELY: Final = 0.7
"""Obtainability from which Google expects the machines to be granted. Source: as above, "Obtainability score"."""
PARTLY: Final = 0.4
"""Obtainability from which some of them are expected. Source: the same."""
_AT_ONCE: Final = 8
"""Zones asked about together. Assumed: far below the API's limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What Google says about Spot machines in one zone; None where it says nothing."""

    zone: str
    nodes: int
    """Machines asked for."""
    obtainability: float | None = None
    """Likelihood, 0 to 1, that all machines asked for are granted now."""
    uptime_seconds: float | None = None
    """Most machines run at least this long. Google's values end at an hour."""
    preempted: float | None = None
    """Of the Spot machines that stopped on a day, the share that Google preempted, 0 to 1: mean of the days."""
    price: str = ""
    """Newest Spot list price of a machine, such as `39.63 USD`; empty if unknown. Per hour (unverified)."""
    refused: str = ""
    """Why Google did not answer."""

    @property
    def level(self) -> str:
        """`0.80, likely`."""
        if self.obtainability is None:
            return "not known"
        words = "likely" if self.obtainability >= LIKELY else "in part" if self.obtainability >= PARTLY else "unlikely"
        return f"{self.obtainability:.2f}, {words}"

    @property
    def words(self) -> tuple[str, ...]:
        """The other figures, for a report."""
        return tuple(
            filter(
                None,
                (
                    "" if self.uptime_seconds is None else f"most run at least {format_duration(self.uptime_seconds)}",
                    ""
                    if self.preempted is None
                    else f"of those that stopped in 30 days {format_percent(self.preempted)} were preempted",
                    self.price and f"list price {self.price}",
                ),
            )
        )


def ask(google: Google, project: str, machine: str, zone: str, nodes: int) -> Advice:
    """Both answers about that many Spot machines in a zone. Raises LiveError, or what `read` raises."""
    url = f"{COMPUTE}/projects/{project}/regions/{zone.rpartition('-')[0]}/advice"
    spot = {"scheduling": {"provisioningModel": "SPOT"}}
    capacity = {
        "size": nodes,
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE", "zones": [{"zone": f"zones/{zone}"}]},
        "instanceFlexibilityPolicy": {"instanceSelections": {"fleet": {"machineTypes": [machine]}}},
        "instanceProperties": spot,
    }
    history = {
        "types": ["PREEMPTION", "PRICE"],
        "locationPolicy": {"location": f"zones/{zone}"},
        "instanceProperties": {"machineType": machine, **spot},
    }
    said = google.post(f"{url}/capacity", capacity), google.post(f"{url}/capacityHistory", history)
    return read(zone, nodes, *said)


def ask_zones(project: str, machine: str, zones: Sequence[str], nodes: int) -> tuple[Advice, ...]:
    """Advice on each zone: the likeliest first, then the least preempted. Raises LiveError without a login."""
    google = Google()

    def of(zone: str) -> Advice:
        try:
            return ask(google, project, machine, zone, nodes)
        except LiveError as error:
            return Advice(zone=zone, nodes=nodes, refused=str(error))
        except (LookupError, TypeError, ValueError, AttributeError):
            return Advice(zone=zone, nodes=nodes, refused="an answer of another form")

    def rank(one: Advice) -> tuple[float, float, str]:
        unknown = one.obtainability is None
        return inf if unknown else -(one.obtainability or 0), inf if one.preempted is None else one.preempted, one.zone

    return tuple(sorted(side_by_side(of, zones, _AT_ONCE), key=rank))


def section(advice: Sequence[Advice], machine: str) -> Section:
    """The zones in that order; at least one."""
    rows = [
        (
            one.zone,
            one.level,
            NOTHING if one.uptime_seconds is None else format_duration(one.uptime_seconds),
            NOTHING if one.preempted is None else format_percent(one.preempted),
            one.price or NOTHING,
        )
        for one in advice
    ]
    return Section(
        title=f"{advice[0].nodes:,} {machine} on Spot today",
        id="spot-zones",
        body=some(
            Table(
                id="spot-zones",
                caption="Google's advice on each zone, the likeliest first",
                columns=(*texts("zone", "obtainability"), *numbers("runs at least", "preempted", "list price")),
                rows=tuple(tuple(map(Cell, row)) for row in rows),
            ),
            Prose(
                "preempted: of the Spot machines that stopped on a day, mean of 30 days. Another hour may say otherwise.",
                "soft",
            ),
            Items(tuple(f"{one.zone}: {one.refused}" for one in advice if one.refused), "warn"),
        ),
    )


def read(zone: str, nodes: int, capacity: Any, history: Any) -> Advice:
    """The advice in both answers. Raises LookupError, TypeError, ValueError or AttributeError for another form."""
    # Google gives one recommendation so far.
    recommendations = capacity.get("recommendations", [])
    scores = recommendations[0].get("scores", {}) if recommendations else {}
    days = [_share(day["preemptionRate"]) for day in history.get("preemptionHistory", []) if "preemptionRate" in day]
    prices = [
        (one.get("interval", {}).get("startTime", ""), _price(one["listPrice"]))
        for one in history.get("priceHistory", [])
        if "listPrice" in one
    ]
    return Advice(
        zone=zone,
        nodes=nodes,
        obtainability=_share(scores["obtainability"]) if "obtainability" in scores else None,
        # A duration such as `3600s`.
        uptime_seconds=float(scores["estimatedUptime"].removesuffix("s")) if "estimatedUptime" in scores else None,
        preempted=sum(days) / len(days) if days else None,
        price=max(prices, default=("", ""))[1],
    )


def _share(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{value} is not a share")
    return float(value)


def _price(money: Any) -> str:
    amount = int(money.get("units", 0)) + int(money.get("nanos", 0)) / 1e9
    return f"{amount:,.2f} {money['currencyCode']}"
