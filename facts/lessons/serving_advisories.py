"""Rules for published security advisories of a server's release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts.advisories import Advisory, of_release
from facts.lessons.lesson import Breach, Lesson, Limits
from facts.lessons.served import Served
from facts.model_config import VISION
from facts.prices import today
from facts.releases import CURRENT

ACCEPTED: Final = "accepted-advisories"


def reaching(server: Served) -> tuple[Advisory, ...]:
    """Advisories of the server's release that its options and model do not rule out."""
    if server.release is None:
        return ()
    flags, parts = server.flags, server.parts
    sees = flags.on("language-model-only") is not True and (parts is None or VISION in parts)
    return tuple(
        one
        for one in of_release(server.release.number)
        if (not one.option or flags.on(one.option)) and (sees or not one.vision)
    )


def _open(server: Served) -> tuple[Advisory, ...]:
    """Those that are not accepted, or not any more."""
    now = today().isoformat()
    return tuple(one for one in reaching(server) if _until(server, one.id) < now)


def _until(server: Served, id_: str) -> str:
    return server.accepted_advisories.get(id_, {}).get("until", "")


def _breach(server: Served, because: str = "") -> Iterator[Breach]:
    found = _open(server)
    if not found:
        return
    free = max(one.fixed for one in found)
    stopping = [one for one in found if one.stops]
    over = [f"{one.id} was accepted until {until}" for one in found if (until := _until(server, one.id))]
    words = "; ".join(f"{one.id}: {one.what} (until {_text(one.fixed)})" for one in found)
    yield Breach(
        option="image-tag",
        value=server.tag,
        allowed=f"v{_text(free)} or later, or each advisory in {{{ACCEPTED}}} with a date",
        because="; ".join(filter(None, (because, *over))),
        why=f"{len(found)} published {'advisory' if len(found) == 1 else 'advisories'}, of which one request "
        f"can stop the server in {len(stopping)}. {words}",
    )


def _anywhere(server: Served, _: Limits) -> Iterator[Breach]:
    if not server.why_production:
        yield from _breach(server)


def _in_production(server: Served, _: Limits) -> Iterator[Breach]:
    if server.why_production:
        yield from _breach(server, server.why_production)


def _accepted(server: Served, _: Limits) -> Iterator[Breach]:
    open_, given = {one.id for one in _open(server)}, server.accepted_advisories
    for one in reaching(server):
        if one.id not in open_:
            yield Breach(
                option="image-tag",
                value=server.tag,
                allowed="with its date",
                because=f"{one.id} is accepted until {given[one.id]['until']}: {given[one.id].get('reason', 'no reason given')}",
                why=f"{one.what}; v{_text(one.fixed)} is the first release without it",
            )


def _text(number: tuple[int, int, int]) -> str:
    return ".".join(map(str, number))


_EVIDENCE: Final = (
    "facts/data/advisories.yaml lists the published advisories that reach a server of this project, with the first release free of "
    "each, read on 2026-11-26; osv.dev has all"
)
_FIX: Final = f"{{image-tag=v{CURRENT}}} and its digest, or {{{ACCEPTED}}}"
ACCEPTED_ADVISORY: Final = "advisory-accepted"
LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="release-with-advisories",
        statement="The vLLM release has no known security advisory that reaches this server.",
        evidence=_EVIDENCE,
        level_reason="a server that no stranger reaches can wait",
        fix=_FIX,
        level="advisory",
        severity="high",
        judge=_anywhere,
    ),
    Lesson(
        name=ACCEPTED_ADVISORY,
        statement="Accepted advisories are shown with date and reason.",
        evidence=f"date and reason are in {{{ACCEPTED}}}",
        level_reason="it is accepted, and a reviewer should see until when and why",
        fix="nothing, while the acceptance holds",
        level="advisory",
        severity="low",
        judge=_accepted,
    ),
)
IN_PRODUCTION: Final[Lesson[Served]] = Lesson(
    name="advisories-in-production",
    statement="In production every known advisory of the vLLM release is fixed, or accepted by name until a date.",
    evidence=_EVIDENCE,
    level_reason="one request of any client stops a replica for everyone",
    fix=_FIX,
    level="mandatory",
    severity="critical",
    judge=_in_production,
)
"""Judged where it is known whether a server is production's: a stack file, or all resources of a stack."""
