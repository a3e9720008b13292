"""Checks of `server.reasons` and `server.acceptedAdvisories` that allow nothing; facts/lessons judges what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from facts.finding import Finding
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.serving_advisories import reaching
from facts.lessons.serving_judged import key_of, refused
from facts.prices import today
from settings.checks.declared_server import DeclaredServer
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

_LONGEST_ACCEPTANCE: Final = timedelta(days=365)
"""Assumed: releases come every few weeks, so one without the advisory is there long before."""


def unused_acceptances(settings: Settings) -> Iterator[Finding]:
    """Accepted advisories that reach neither the servers nor the canary."""
    servers = [DeclaredServer(one) for one in (settings, settings.as_canary) if one is not None]
    there = {advisory.id for server in servers for advisory in reaching(server)}
    for id_, accepted in settings.server.accepted_advisories.items():
        if id_ not in there:
            yield Finding(
                id="acceptance-without-advisory",
                subject=key(f"server.acceptedAdvisories.{id_}"),
                found=accepted.until,
                allowed="advisories that reach this stack's servers",
                why="the release is free of it, or the server does not have what it is about",
                write=f"acceptedAdvisories: without {id_}",
                severity="warning",
            )


def long_acceptances(settings: Settings) -> Iterator[Finding]:
    """Advisories accepted for longer than a year, at which no reviewer would look again."""
    latest = (today() + _LONGEST_ACCEPTANCE).isoformat()
    for id_, accepted in settings.server.accepted_advisories.items():
        if accepted.until > latest:
            yield Finding(
                id="acceptance-too-long",
                subject=key(f"server.acceptedAdvisories.{id_}.until"),
                found=accepted.until,
                allowed=f"up to {latest}, a year from today",
                why="from the day after, the advisory is a finding again and somebody decides again",
                write=f'until: "{latest}", or an earlier day',
            )


def unused_reasons(settings: Settings) -> Iterator[Finding]:
    """Reasons for options and variables that neither the servers nor the canary have, or that no reason allows."""
    if not settings.server.reasons:
        return
    servers = [DeclaredServer(one) for one in (settings, settings.as_canary) if one is not None]
    judged = [(name, False) for server in servers for name, _, _ in refused(server)]
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
            yield Finding(
                id="reason-without-option",
                subject=key(f"server.reasons.{written}"),
                found=reason,
                allowed="a reason for an option or variable that this stack sets and that needs one",
                why="a reason does not allow what is refused" if found else "nothing here needs it",
                write=f"reasons: without {written}",
                severity="warning",
            )
