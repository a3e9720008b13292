"""Checks of `server.reasons` that allow nothing; facts/lessons judges what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.served import option_of
from settings.checks.declared_server import DeclaredServer
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings


def unused_reasons(settings: Settings) -> Iterator[Finding]:
    """Reasons that allow neither the servers nor the canary anything."""
    servers = [DeclaredServer(one) for one in (settings, settings.as_canary) if one is not None]
    used = {
        breach.option
        for server in servers
        for lesson in ENGINE_LESSONS
        for breach in lesson.judge(server, lesson.defaults)
        if breach.reason
    }
    for written, reason in settings.server.reasons.items():
        if option_of(written) not in used:
            yield Finding(
                id="reason-without-option",
                subject=key(f"server.reasons.{written}"),
                found=reason,
                allowed="a reason for an option of this stack that a lesson accepts with one",
                why="nothing here needs it",
                write=f"reasons: without {written}",
                severity="warning",
            )
