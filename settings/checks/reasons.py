"""Checks of `server.reasons` that allow nothing; facts/lessons judges what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.serving_judged import key_of, needs_reason, parts
from settings.checks.declared_server import DeclaredServer
from settings.checks.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

<<<<<<< HEAD
_LONGEST_ACCEPTANCE: Final = timedelta(days=365)
"""Assumed: releases come every few weeks, so one without the advisory is there long before."""
_NO_ADVISORY = Row(
    "acceptance-without-advisory",
    "the release is free of it, or the server does not have what it is about",
    "acceptedAdvisories without it",
    "warning",
)
_LONG = Row(
    "acceptance-too-long",
    "from the day after, the advisory is a finding again and somebody decides again",
    "an earlier day",
)
_NO_OPTION = Row(
    "reason-without-option", "nothing here needs it, or no reason allows it", "reasons without it", "warning"
)


def unused_acceptances(settings: Settings) -> Iterator[Finding]:
    """Accepted advisories that reach neither the servers nor the canary."""
    servers = [DeclaredServer(one) for one in (settings, settings.as_canary) if one is not None]
    there = {advisory.id for server in servers for advisory in reaching(server)}
    for id_, accepted in settings.server.accepted_advisories.items():
        if id_ not in there:
            allowed = "advisories that reach this stack's servers"
            yield _NO_ADVISORY(f"server.acceptedAdvisories.{id_}", accepted.until, allowed)


def long_acceptances(settings: Settings) -> Iterator[Finding]:
    """Advisories accepted for longer than a year, at which no reviewer would look again."""
    latest = (today() + _LONGEST_ACCEPTANCE).isoformat()
    for id_, accepted in settings.server.accepted_advisories.items():
        if accepted.until > latest:
            allowed = f"up to {latest}, a year from today"
            yield _LONG(f"server.acceptedAdvisories.{id_}.until", accepted.until, allowed)

=======
>>>>>>> w/pack

def unused_reasons(settings: Settings) -> Iterator[Finding]:
    """Reasons for options and variables that neither the servers nor the canary have, or that no reason allows."""
    if not settings.server.reasons:
        return
    servers = [DeclaredServer(one) for one in (settings, settings.as_canary) if one is not None]
    judged = [
        (name, verdict.trust == "unknown" or needs_reason(server, verdict))
        for server in servers
        for name, _, verdict in parts(server)
    ]
    judged += [
        (breach.option, True)
        for server in servers
        for lesson in ENGINE_LESSONS
        for breach in lesson.judge(server, lesson.defaults)
        if breach.reason
    ]
    for written, reason in settings.server.reasons.items():
        found = {needed for name, needed in judged if name == key_of(written) or name.startswith(f"{key_of(written)}.")}
        if True not in found:
            allowed = "a reason for an option or variable that this stack sets and that needs one"
            yield _NO_OPTION(f"server.reasons.{written}", reason, allowed)
