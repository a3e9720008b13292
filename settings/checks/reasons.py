"""Checks of `server.reasons` that allow nothing; facts/lessons judges what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.serving_judged import key_of, refused
from settings.checks.declared_server import DeclaredServer
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

_NO_OPTION = Row(
    "reason-without-option", "nothing here needs it, or no reason allows it", "reasons without it", "warning"
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
            allowed = "a reason for an option or variable that this stack sets and that needs one"
            yield _NO_OPTION(f"server.reasons.{written}", reason, allowed)
