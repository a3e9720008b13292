"""A policy pack's violations as reports show them: one entry for each policy, with reason, fix and what is at stake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from settings.rules.verdict import REPEATED_ON_PURPOSE, decode

if TYPE_CHECKING:
    from fleet.preview.policy import Level, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One resource that a policy was violated at."""

    urn: str
    what: str
    why: str = ""
    fix: str = ""
    at_stake: str = ""
    """Money, in words."""

    @property
    def name(self) -> str:
        """The resource's name in the program; empty where the policy named none."""
        return self.urn.rpartition("::")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One violated policy, and everywhere it is."""

    policy: str
    level: Level
    severity: str
    statement: str
    """What the policy asks for; empty where the pack does not say."""
    places: tuple[Place, ...]

    @property
    def on_purpose(self) -> bool:
        """Whether the workload says itself that it breaks rules to reproduce a published result."""
        return self.policy == REPEATED_ON_PURPOSE

    @property
    def stops(self) -> bool:
        """Whether the engine would not go on."""
        return self.level != "advisory"


def verdicts(violations: Iterable[Violation]) -> list[Verdict]:
    """The violations by policy: what stops first, then as they come."""
    by_policy: dict[tuple[str, Level], list[Violation]] = {}
    for one in violations:
        by_policy.setdefault((one.policy, one.level), []).append(one)
    found = [
        Verdict(
            policy=policy,
            level=level,
            severity=several[0].severity,
            statement=several[0].description,
            places=tuple(_place(one) for one in several),
        )
        for (policy, level), several in by_policy.items()
    ]
    return sorted(found, key=lambda one: not one.stops)


def shared(places: Iterable[Place], part: str) -> str:
    """The reason or the fix that all places have in common; empty if they differ."""
    texts = {str(getattr(place, part)) for place in places}
    return texts.pop() if len(texts) == 1 else ""


def _place(violation: Violation) -> Place:
    said = decode(violation.message, description=violation.description)
    return Place(urn=violation.urn, what=said.what, why=said.why, fix=said.fix, at_stake=said.at_stake)
