"""What is wrong with a limit of spending, or worth knowing about it, before a fleet relies on it."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from settings.problems import Problem
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.sections.spending import Spending
    from settings.stack import Settings

LEAST_HOURS = 1.0
"""Of the whole fleet. Assumed: a start takes a quarter of an hour and an empty machine ten minutes, so that less buys no answers."""


def spending_problems(settings: Settings) -> Iterator[Problem]:
    """Every problem of the section, or nothing without one."""
    spending = settings.spending
    if spending is None:
        return
    if spending.limit is None and spending.until is None:
        yield Problem(
            id="spending-without-end",
            path=key("spending.limit"),
            value=None,
            allowed="limit, until, or both",
            why="the guard would count and never act",
            write="limit: 5000",
        )
    yield from _against_the_bill(settings, spending)


def _against_the_bill(settings: Settings, spending: Spending) -> Iterator[Problem]:
    from settings.derived.spending import rates

    counted, limit = rates(settings), spending.limit
    hourly = counted.full
    least = "at least " if counted.unknown else ""
    nodes = f"{settings.machine.type} by capacity.mode {settings.capacity.mode}"
    if hourly is None:
        yield Problem(
            id="spending-counts-no-nodes",
            path=key("spending.limit"),
            value=limit,
            allowed="a limit with a known price of the nodes, or until alone",
            why=f"no price of {nodes} is known, so the sum leaves out what costs most",
            write="capacity: {usdPerNodeHour: YOUR PRICE}",
            level="finding",
        )
    elif limit is not None and hourly * LEAST_HOURS > limit:
        yield Problem(
            id="spending-limit-below-an-hour",
            path=key("spending.limit"),
            value=limit,
            allowed=f"{hourly * LEAST_HOURS:,.2f} or more: an hour of this fleet",
            why=f"the fleet costs {least}${hourly:,.2f} an hour, and would be paused before it has served",
            write=f"limit: {ceil(24 * hourly)}, which is a day of it",
        )
    elif limit is not None and hourly > 0:
        yield Problem(
            id="spending-lasts",
            path=key("spending.limit"),
            value=limit,
            allowed=f"any amount from {hourly * LEAST_HOURS:,.2f} on",
            why=f"at full size, {least}${hourly:,.2f} an hour, the limit lasts {'at most ' if least else ''}{limit / hourly:,.0f} h",
            write="nothing, if that is what you meant",
            level="notice",
        )
    if hourly is not None and counted.paid_anyway and spending.then == "pause":
        yield Problem(
            id="spending-pause-saves-nothing",
            path=key("spending.then"),
            value=spending.then,
            allowed="warn, or capacity that is paid only while it runs",
            why=f"{nodes} is paid whether a server runs or not: a pause ends the service and not the cost",
            write="then: warn",
            level="finding",
        )
    if counted.unknown:
        stops = spending.on_unknown == "pause"
        yield Problem(
            id="spending-unknown-prices",
            path=key("spending.onUnknown"),
            value=spending.on_unknown,
            allowed="warn, or pause with every price known" if stops else "warn",
            why=f"no price is known of: {', '.join(counted.unknown)}; "
            + ("the fleet would be paused as soon as it is up" if stops else "the sum is a lower bound without them"),
            write="vllm-fleet:prices: {ITEM: USD} for each of them" + (", or onUnknown: warn" if stops else ""),
            level="refused" if stops else "notice",
        )
