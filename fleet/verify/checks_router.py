"""Checks of the routers: their pods, the servers' shares of a burst, and what refusals tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from facts.texts import plural
from fleet.verify.facts import Facts
from fleet.verify.findings import Check, difference, judged, not_checked
from settings.sections.endpoint import ROUTER_DRAIN_SECONDS, ROUTER_EXIT_SECONDS, ROUTER_PRE_STOP_SECONDS

if TYPE_CHECKING:
    from settings.stack import Settings

_ADDRESS: Final = re.compile(
    r"\b(?:10(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2}"
    r"|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])(?:\.\d{1,3}){2}|127(?:\.\d{1,3}){3})\b|[\w.-]+\.svc\b"
)
"""Internal addresses and names: private ranges, those of GKE's pods, loopback, and Services."""
_STATUSES: Final = {"no key": (401,), "a path outside /v1": (404,), "another model": (400, 404)}


def routers(facts: Facts, settings: Settings) -> Check | None:
    """Ready routers against declared ones, and the time that their streams have at their end; None without routers."""
    if not settings.has_router:
        return None
    title = "Routers"
    if facts.cluster is None:
        return not_checked("routers", title, facts.cluster_trouble)
    if "routers" in facts.cluster.troubles:
        return not_checked("routers", title, facts.cluster.troubles["routers"])
    router = settings.endpoint.router
    found, wanted = facts.cluster.routers, router.replicas
    grace = ROUTER_PRE_STOP_SECONDS + ROUTER_DRAIN_SECONDS + ROUTER_EXIT_SECONDS
    ready = sum(one.ready for one in found)
    differences = [difference(one.name, "pod", "ready", one.why_not_ready) for one in found if not one.ready]
    differences += [
        difference(one.name, "terminationGracePeriodSeconds", str(grace), str(one.grace_seconds))
        for one in found
        if one.grace_seconds != grace
    ]
    if ready != wanted:
        differences.insert(0, difference("router", "replicas", str(wanted), f"{ready} ready"))
    return judged(
        "routers", title, differences, held=f"{ready} of {wanted} ready; their streams have {grace} s at an end"
    )


def balance(facts: Facts, settings: Settings) -> Check | None:
    """Every server, with a port per rank every rank, got a part of a burst through one router; None without routers."""
    if not settings.has_router:
        return None
    title, routed = "Balance between servers", facts.routed
    each = "rank" if settings.rank_ports > 1 and settings.sees_ranks else "server"
    if routed is None:
        return not_checked("balance", title, why_not_routed(facts))
    blind = sorted(name for name, share in routed.shares.items() if share is None)
    differences = [
        difference(name, "requests through the router", "1 or more", "none")
        for name, share in sorted(routed.shares.items())
        if share is not None and share < 1
    ]
    if routed.answered < routed.asked:
        why = f"{routed.answered} answered; {', '.join(routed.troubles)}"
        differences.insert(0, difference(routed.router, "burst", f"{plural(routed.asked, 'request')} answered", why))
    if blind and not differences:
        return not_checked("balance", title, f"no counters at /metrics of {', '.join(blind)}")
    shares = [share for share in routed.shares.values() if share is not None]
    spread = f", {min(shares)} to {max(shares)} a {each}" if shares else ""
    return judged(
        "balance",
        title,
        differences,
        held=f"{routed.answered} of {routed.asked} requests answered through {routed.router}{spread}",
        failed=f"a {each} without requests is paid for and idle: the router does not know it, or its health check fails",
    )


def refusals(facts: Facts, settings: Settings) -> Check | None:
    """A router refuses wrong requests without internal addresses; None without routers."""
    if not settings.has_router:
        return None
    title, routed = "Refusals of the router", facts.routed
    if routed is None:
        return not_checked("refusals", title, why_not_routed(facts))
    differences = []
    for what, reply in routed.refused.items():
        if reply.status not in _STATUSES[what]:
            allowed = " or ".join(f"HTTP {status}" for status in _STATUSES[what])
            differences.append(difference(routed.router, what, allowed, reply.summary))
        elif told := _ADDRESS.search(str(reply.body)):
            differences.append(difference(routed.router, what, "no internal address", told[0]))
    held = f"{plural(len(routed.refused), 'wrong request')} refused, without internal addresses"
    return judged("refusals", title, differences, held=held, failed="clients learn what they may not, or reach it")


def why_not_routed(facts: Facts) -> str:
    """Why no burst went through a router."""
    if facts.cluster is None:
        return facts.cluster_trouble
    return "no router is ready" if not any(one.ready for one in facts.cluster.routers) else "no tunnel to a router"
