"""Rules for published security advisories of a server's release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts.advisories import Advisory, of_release, text_of, worst
from facts.engines import Flags
from facts.lessons.lesson import Breach, Lesson, Limits
from facts.lessons.served import Served
from facts.model_config import VISION
from facts.releases import CURRENT
from facts.texts import plural


def reaching(server: Served) -> tuple[Advisory, ...]:
    """Advisories of the server's release that its options and model do not rule out."""
    if server.release is None:
        return ()
    flags, parts = server.flags, server.parts
    sees = flags.on("language-model-only") is not True and (parts is None or VISION in parts)
    return tuple(
        one
        for one in of_release(server.release.number)
        if (not one.option or _has(flags, one.option)) and (sees or not one.vision)
    )


def _has(flags: Flags, option: str) -> bool:
    """Whether an option is on, or set to more than one of something."""
    value = flags.options.get(option)
    return value is True or value not in (None, False, 1, "1")


def _in_production(server: Served, _: Limits) -> Iterator[Breach]:
    found = reaching(server) if server.why_production else ()
    fixes = [one.fixed for one in found if one.fixed is not None]
    if not fixes:
        return
    gravest = worst(found)
    yield Breach(
        option="image-tag",
        value=server.tag,
        allowed=f"v{text_of(max(fixes))} or later",
        because=server.why_production,
        why=f"{plural(len(found), 'published advisory', 'published advisories')}; one request can stop the server in "
        f"{sum(one.harm == 'stops' for one in found)}. The worst is {gravest.id}: {gravest.what} ({gravest.range}). "
        "`fleet check --details` and facts/data/advisories.yaml have all",
    )


IN_PRODUCTION: Final[Lesson[Served]] = Lesson(
    name="advisories-in-production",
    statement="In production the vLLM release has no published advisory that reaches this server and that a later release fixes.",
    evidence="facts/data/advisories.yaml lists the published advisories that reach a server of this project, with the first release free "
    "of each, read on 2026-11-29; osv.dev has more",
    level_reason="one request of any client stops a replica for everyone",
    fix=f"{{image-tag=v{CURRENT}}} and its digest",
    level="mandatory",
    severity="critical",
    judge=_in_production,
)
"""Judged where it is known whether a server is production's: a stack file, or all resources of a stack."""
