"""Rules for published security advisories of a server's release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts.advisories import Advisory, of_release, text_of, worst
from facts.engines import Flags
from facts.lessons.lesson import Breach, Lesson, Limits
from facts.lessons.served import Served
from facts.model_config import VISION
from facts.prices import today
from facts.releases import CURRENT
from facts.texts import plural

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
        if (not one.option or _has(flags, one.option)) and (sees or not one.vision)
    )


def _has(flags: Flags, option: str) -> bool:
    """Whether an option is on, or set to more than one of something."""
    value = flags.options.get(option)
    return value is True or value not in (None, False, 1, "1")


def _open(server: Served) -> tuple[Advisory, ...]:
    """Those that are not accepted, or not any more."""
    now = today().isoformat()
    return tuple(one for one in reaching(server) if _until(server, one.id) < now)


def _is_mendable(server: Served) -> bool:
    """Whether another release is free of one of them."""
    return any(one.fixed is not None for one in _open(server))


def _until(server: Served, id_: str) -> str:
    return server.accepted_advisories.get(id_, {}).get("until", "")


def _breach(server: Served, because: str = "") -> Iterator[Breach]:
    found = _open(server)
    if not found:
        return
    fixes = [one.fixed for one in found if one.fixed is not None]
    over = [f"{one.id} was accepted until {until}" for one in found if (until := _until(server, one.id))]
    gravest = worst(found)
    yield Breach(
        option="image-tag",
        value=server.tag,
        allowed=(f"v{text_of(max(fixes))} or later, or " if fixes else "")
        + f"each advisory in {{{ACCEPTED}}} with a date",
        because="; ".join(filter(None, (because, *over))),
        why=f"{plural(len(found), 'published advisory', 'published advisories')}; one request can stop the server in "
        f"{sum(one.harm == 'stops' for one in found)}. The worst is {gravest.id}: {gravest.what} ({gravest.range}). "
        "`fleet check --details` and facts/data/advisories.yaml have all",
    )


def _anywhere(server: Served, _: Limits) -> Iterator[Breach]:
    if not server.why_production and _is_mendable(server):
        yield from _breach(server)


def _in_production(server: Served, _: Limits) -> Iterator[Breach]:
    if server.why_production and _is_mendable(server):
        yield from _breach(server, server.why_production)


def _unmended(server: Served, _: Limits) -> Iterator[Breach]:
    if not _is_mendable(server):
        yield from _breach(server)


def _accepted(server: Served, _: Limits) -> Iterator[Breach]:
    open_, given = {one.id for one in _open(server)}, server.accepted_advisories
    for one in reaching(server):
        if one.id not in open_:
            yield Breach(
                option="image-tag",
                value=server.tag,
                allowed="with its date",
                because=f"{one.id} is accepted until {given[one.id]['until']}: {given[one.id].get('reason', 'no reason given')}",
                why=f"{one.what}; releases with it: {one.range}",
            )


_EVIDENCE: Final = (
    "facts/data/advisories.yaml lists the published advisories that reach a server of this project, with the first release free of "
    "each, read on 2026-11-29; osv.dev has more. One whose fix no source names counts for every release"
)
_FIX: Final = f"{{image-tag=v{CURRENT}}} and its digest, or {{{ACCEPTED}}}"
ADVISORY_WITHOUT_FIX: Final = "advisory-without-fix"
ACCEPTED_ADVISORY: Final = "advisory-accepted"
LESSONS: Final[tuple[Lesson[Served], ...]] = (
    Lesson(
        name="release-with-advisories",
        statement="The vLLM release has no known security advisory that reaches this server and that a later one fixes.",
        evidence=_EVIDENCE,
        level_reason="a server that no stranger reaches can wait",
        fix=_FIX,
        level="advisory",
        severity="high",
        judge=_anywhere,
    ),
    Lesson(
        name=ADVISORY_WITHOUT_FIX,
        statement="The vLLM release has no published advisory whose fix no source names.",
        evidence=_EVIDENCE,
        level_reason="no other release is better, and a reviewer should see that this one is not proven free",
        fix=f"nothing, or {{{ACCEPTED}}} after reading it",
        level="advisory",
        severity="low",
        judge=_unmended,
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
    statement="In production every advisory of the vLLM release that a later one fixes is fixed, or accepted by name until a date.",
    evidence=_EVIDENCE,
    level_reason="one request of any client stops a replica for everyone",
    fix=_FIX,
    level="mandatory",
    severity="critical",
    judge=_in_production,
)
"""Judged where it is known whether a server is production's: a stack file, or all resources of a stack."""
