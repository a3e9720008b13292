"""Checks of the section `spending`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from facts.cost import HOURS_PER_MONTH
from facts.finding import Finding, Severity
from facts.prices import today
from settings.row import Row

if TYPE_CHECKING:
    from settings.derived.spending import Rates
    from settings.sections.spending import Spending
    from settings.stack import Settings

LEAST_HOURS = 1.0
"""Least hours of the whole fleet that a limit must buy. Assumed: startup takes a quarter of an hour and an idle node is kept for
ten minutes, so less would be spent before the first response."""
_NO_END = Row("spending-without-end", "without either the guard counts but never acts", "limit: 5000")
_SINCE = Row(
    "spending-since-after-until",
    "the sum would begin after the fleet is paused",
    "the time from which to count, or a later until",
)
_PASSED = Row(
    "spending-until-passed",
    "it is in the past, and the guard would act at once",
    "a later until, or none, unless the fleet should stay paused",
    "warning",
)
_NO_NODES = Row(
    "spending-counts-no-nodes",
    "no price of the nodes is known, so the sum misses the largest cost, and a limit would never be reached",
    "capacity: {usdPerNodeHour: YOUR PRICE}",
)
_AN_HOUR = Row(
    "spending-limit-below-an-hour",
    "the fleet would be paused before it serves a request",
    "a limit of a day or more",
)
_STAYS = Row(
    "spending-limit-below-what-stays",
    "disks, network and what is reserved are billed even while paused, and reach the limit within a month",
    "a limit for a month of the whole fleet",
)
_LASTS = Row("spending-lasts", "at full size the limit lasts so long", "nothing, if that is intended", "note")
_UNKNOWN = Row(
    "spending-unknown-prices",
    "the sum is a lower bound: the limit is passed before the guard sees it",
    "the missing prices in `prices` and capacity.usdPerNodeHour",
    "note",
)
_NO_SAVING = Row(
    "spending-pause-saves-nothing",
    "the nodes are billed whether a server runs or not: a pause would stop the service but not the cost",
    "then: warn",
    "warning",
)
_UNCOUNTED = Row(
    "spending-reservation-uncounted",
    "the ComputeClass's reservation is billed whether a server runs or not: a pause saves only the nodes beyond it, and the sum counts it "
    "only with capacity.reservation.nodes",
    "then: warn, with capacity: {reservation: {nodes: NODES OF THE RESERVATION}}",
)


def spending_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section."""
    spending = settings.spending
    if spending is None:
        return
    from settings.derived.spending import rates

    counted = rates(settings)
    if spending.limit is None and spending.until is None:
        yield _NO_END("spending.limit", None, "limit, until, or both")
    yield from _moments(spending)
    if spending.limit is not None:
        yield from _limit(settings, spending, spending.limit, counted)
    if counted.unknown:
        yield _UNKNOWN(
            "spending.limit", spending.limit, f"any, best with the prices of {', '.join(counted.unknown_ids)}"
        )
    pauses = spending.then == "pause"
    if counted.paid_anyway and counted.full is not None and pauses:
        yield _NO_SAVING("spending.then", spending.then, "warn, or capacity that is billed only while it runs")
    if counted.reserved_first and (pauses or not counted.reserved_nodes):
        severity: Severity = "warning" if pauses else "note"
        yield _UNCOUNTED("spending.then", spending.then, "warn, with the reservation's nodes counted", severity)


def _moments(spending: Spending) -> Iterator[Finding]:
    since, until = spending.since, spending.until
    if until is None:
        return
    end = datetime.fromisoformat(until)
    if since is not None and datetime.fromisoformat(since) >= end:
        yield _SINCE("spending.since", since, f"a time before until, {until}")
    if end.date() < today():
        yield _PASSED("spending.until", until, f"a time after {today()}")


def _limit(settings: Settings, spending: Spending, limit: float, counted: Rates) -> Iterator[Finding]:
    """A limit against the stack's bill."""
    hourly, stays = counted.full, counted.fixed + counted.reserved_nodes * counted.per_reserved_node
    least = "at least " if counted.unknown else ""
    severity: Severity = "error" if spending.then == "pause" else "warning"
    if hourly is None:
        nodes = f"{settings.machine.type} by capacity.mode {settings.capacity.mode}"
        yield _NO_NODES("spending.limit", limit, f"a limit with a known price of {nodes}, or only until", severity)
    elif hourly * LEAST_HOURS > limit:
        allowed = f"{hourly * LEAST_HOURS:,.2f} or more: {LEAST_HOURS:g} hour of this fleet"
        yield _AN_HOUR("spending.limit", limit, allowed)
    elif hourly and spending.every == "month" and stays * HOURS_PER_MONTH >= limit:
        allowed = f"more than {stays * HOURS_PER_MONTH:,.0f}: what is billed in a month without any server"
        yield _STAYS("spending.limit", limit, allowed, severity)
    elif hourly:
        of_month = f" of a month's {HOURS_PER_MONTH}" if spending.every == "month" else ""
        most = "at most " if counted.unknown else ""
        allowed = f"any; {least}${hourly:,.2f} an hour, all servers running, reach it in {most}{limit / hourly:,.0f} h{of_month}"
        yield _LASTS("spending.limit", limit, allowed)
