"""Checks of the section `spending`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING

from facts.cost import HOURS_PER_MONTH
from facts.finding import Finding
from facts.prices import today
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.sections.spending import Spending
    from settings.stack import Settings

LEAST_HOURS = 1.0
"""Least hours of the whole fleet that a limit must buy. Assumed: startup takes a quarter of an hour and an idle node is kept for
ten minutes, so less would be spent before the first response."""


def spending_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section."""
    spending = settings.spending
    if spending is None:
        return
    if spending.limit is None and spending.until is None:
        yield Finding(
            id="spending-without-end",
            subject=key("spending.limit"),
            found=None,
            allowed="limit, until, or both",
            why="without either the guard counts but never acts",
            write="limit: 5000",
        )
    if spending.every is not None and spending.limit is None:
        yield Finding(
            id="spending-month-without-limit",
            subject=key("spending.every"),
            found=spending.every,
            allowed="month with a limit",
            why="every is the time that a limit is for; until is one moment",
            write="limit: 5000, or remove every",
        )
    yield from _moments(spending)
    yield from _against_the_bill(settings, spending)
    yield from _what_a_pause_saves(settings, spending)


def _moments(spending: Spending) -> Iterator[Finding]:
    since, until = spending.since, spending.until
    if until is None:
        return
    end = datetime.fromisoformat(until)
    if since is not None and datetime.fromisoformat(since) >= end:
        yield Finding(
            id="spending-since-after-until",
            subject=key("spending.since"),
            found=since,
            allowed=f"a time before until, {until}",
            why="the sum would begin after the fleet is paused",
            write="the time from which to count, or a later until",
        )
    if end.date() < today():
        yield Finding(
            id="spending-until-passed",
            subject=key("spending.until"),
            found=until,
            allowed=f"a time after {today()}",
            why="it is in the past: "
            + (
                "the fleet would be paused immediately"
                if spending.then == "pause"
                else "the guard would warn immediately"
            ),
            write="a later until, or none, unless the fleet should stay paused",
            severity="warning",
        )


def _against_the_bill(settings: Settings, spending: Spending) -> Iterator[Finding]:
    from settings.derived.spending import rates

    counted, limit = rates(settings), spending.limit
    hourly, stays = counted.full, counted.fixed + counted.reserved_nodes * counted.per_reserved_node
    least = "at least " if counted.unknown else ""
    nodes = f"{settings.machine.type} by capacity.mode {settings.capacity.mode}"
    since = (
        "" if spending.since is None else f". The sum is named {spending.since} and counts from the guard's first run"
    )
    stops = spending.then == "pause"
    if limit is not None and hourly is None:
        yield Finding(
            id="spending-counts-no-nodes",
            subject=key("spending.limit"),
            found=limit,
            allowed="a limit with a known price of the nodes, or only until",
            why=f"no price of {nodes} is known, so the sum misses the largest cost"
            + (", and the fleet would never be paused" if stops else ""),
            write="capacity: {usdPerNodeHour: YOUR PRICE}",
            severity="error" if stops else "warning",
        )
    elif limit is not None and hourly is not None and hourly * LEAST_HOURS > limit:
        yield Finding(
            id="spending-limit-below-an-hour",
            subject=key("spending.limit"),
            found=limit,
            allowed=f"{hourly * LEAST_HOURS:,.2f} or more: one hour of this fleet",
            why=f"the fleet costs {least}${hourly:,.2f} an hour and would be paused before it serves a request",
            write=f"limit: {ceil(24 * hourly)}, one day of this fleet",
        )
    elif limit is not None and hourly and spending.every == "month" and stays * HOURS_PER_MONTH >= limit:
        yield Finding(
            id="spending-limit-below-what-stays",
            subject=key("spending.limit"),
            found=limit,
            allowed=f"more than {stays * HOURS_PER_MONTH:,.0f}: what is billed in a month without any server",
            why=f"disks, network and what is reserved cost {least}${stays:,.2f} an hour, so a month's sum reaches the limit even "
            "while paused",
            write=f"limit: {ceil(HOURS_PER_MONTH * hourly)}, one month of the whole fleet",
            severity="error" if stops else "warning",
        )
    elif limit is not None and hourly:
        of_month = f" of a month's {HOURS_PER_MONTH}" if spending.every == "month" else ""
        yield Finding(
            id="spending-lasts",
            subject=key("spending.limit"),
            found=limit,
            allowed=f"{hourly * LEAST_HOURS:,.2f} or more",
            why=f"at full size, {least}${hourly:,.2f} an hour, the limit lasts {'at most ' if least else ''}{limit / hourly:,.0f} h"
            f"{of_month}{since}",
            write="nothing, if that is intended",
            severity="note",
        )
    if counted.unknown:
        stops = spending.on_unknown == "pause"
        items = ", ".join(f"{id_}: USD" for id_ in counted.unknown_ids if id_ != "nodes")
        lines = [f"vllm-fleet:prices: {{{items}}}"] if items else []
        lines += ["capacity: {usdPerNodeHour: USD}"] if "nodes" in counted.unknown_ids else []
        yield Finding(
            id="spending-unknown-prices",
            subject=key("spending.onUnknown"),
            found=spending.on_unknown,
            allowed="warn, or pause with every price known" if stops else "warn",
            why=f"no price is known for: {', '.join(counted.unknown)}; "
            + ("the fleet would be paused immediately" if stops else "the sum is a lower bound"),
            write=" and ".join(lines) + (", or onUnknown: warn" if stops else ""),
            severity="error" if stops else "note",
        )


def _what_a_pause_saves(settings: Settings, spending: Spending) -> Iterator[Finding]:
    from settings.derived.spending import rates

    counted, nodes = rates(settings), f"{settings.machine.type} by capacity.mode {settings.capacity.mode}"
    if counted.paid_anyway and counted.full is not None and spending.then == "pause":
        yield Finding(
            id="spending-pause-saves-nothing",
            subject=key("spending.then"),
            found=spending.then,
            allowed="warn, or capacity that is billed only while it runs",
            why=f"{nodes} is billed whether a server runs or not: a pause would stop the service but not the cost",
            write="then: warn",
            severity="warning",
        )
    pauses, is_uncounted = spending.then == "pause", not counted.reserved_nodes
    if counted.reserved_first and (pauses or is_uncounted):
        yield Finding(
            id="spending-reservation-uncounted",
            subject=key("spending.then"),
            found=spending.then,
            allowed="warn, or a ladder without a reservation" if pauses else "warn",
            why="the ladder's reservation is billed whether a server runs or not"
            + (", but the sum counts only nodes with a server" if is_uncounted else "")
            + (
                ": a pause saves only the nodes beyond the reservation"
                if pauses
                else ": it is a lower bound while fewer run"
            ),
            write="then: warn" if pauses else "capacity: {reservation: {nodes: NODES OF THE RESERVATION}}",
            severity="warning" if pauses else "note",
        )
