"""Policy violations for reports: one entry per policy, with reason, fix and cost at stake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from facts.lessons.verdict import REPEATED_ON_PURPOSE, decode
from fleet.preview.report.judges import are_all_asked, format_gaps, labels_of
from fleet.report.words import plural

if TYPE_CHECKING:
    from fleet.preview.policy import Violation
    from fleet.preview.policy_config import Level
    from fleet.preview.report.model import Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One resource that violates a policy."""

    urn: str
    what: str
    why: str = ""
    fix: str = ""
    at_stake: str = ""
    """Cost, formatted."""

    @property
    def name(self) -> str:
        """The resource's Pulumi name; empty if the policy named none."""
        return self.urn.rpartition("::")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One violated policy and its resources."""

    policy: str
    level: Level
    severity: str
    statement: str
    """The policy's description; empty if the pack has none."""
    places: tuple[Place, ...]
    by: str = ""
    """The only judge that says so; empty where all do."""

    @property
    def on_purpose(self) -> bool:
        """Whether it is a deliberate exception that reproduces a published result."""
        return self.policy == REPEATED_ON_PURPOSE

    @property
    def stops(self) -> bool:
        """Whether it blocks an update."""
        return self.level != "advisory"


def verdicts(policies: Policies) -> list[Verdict]:
    """The violations by policy and judge: blocking ones first, then in the given order."""
    by_policy: dict[tuple[str, Level, tuple[str, ...]], list[Violation]] = {}
    for one in policies.violations:
        by_policy.setdefault((one.policy, one.level, one.judges), []).append(one)
    labels = labels_of(policies)
    found = [
        Verdict(
            policy=policy,
            level=level,
            severity=several[0].severity,
            statement=several[0].description,
            places=tuple(_place(one) for one in several),
            by=labels.get(judges[0], "") if len(judges) == 1 else "",
        )
        for (policy, level, judges), several in by_policy.items()
    ]
    return sorted(found, key=lambda one: not one.stops)


def shared(places: Iterable[Place], part: str) -> str:
    """The reason or fix common to all places; empty if they differ."""
    texts = {str(getattr(place, part)) for place in places}
    return texts.pop() if len(texts) == 1 else ""


def _place(violation: Violation) -> Place:
    said = decode(violation.message, description=violation.description)
    return Place(urn=violation.urn, what=said.what, why=said.why, fix=said.fix, at_stake=said.at_stake)


def format_counts(policies: Policies) -> str:
    """`no violations`, or `1 blocking violation, 2 warnings`: CrossGuard's mandatory and advisory levels.

    "No violations" only where every policy was asked.
    """
    warnings = sum(one.level == "advisory" for one in policies.violations)
    blocking = len(policies.violations) - warnings
    parts = [plural(blocking, "blocking violation")] if blocking else []
    if not policies.violations:
        parts.append("no violations" if are_all_asked(policies) else "nothing found")
    elif not blocking:
        parts.append("no blocking violations")
    return ", ".join(filter(None, (*parts, plural(warnings, "warning") if warnings else "", format_gaps(policies))))
