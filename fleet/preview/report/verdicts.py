"""Policy violations for reports: one entry per policy, with its findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from facts.lessons.verdict import REPEATED_ON_PURPOSE
from fleet.preview.report.judges import are_all_asked, format_gaps, labels_of
from fleet.report.words import plural

if TYPE_CHECKING:
    from facts.finding import Finding
    from fleet.preview.policy import Violation
    from fleet.preview.policy_config import Level
    from fleet.preview.report.model import Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One violated policy and its findings."""

    policy: str
    level: Level
    severity: str
    statement: str
    """The policy's description; empty if the pack has none."""
    findings: tuple[Finding, ...]
    """One for each resource; the subject is its URN, empty if the policy named none."""
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
            findings=tuple(one.finding for one in several),
            by=labels.get(judges[0], "") if len(judges) == 1 else "",
        )
        for (policy, level, judges), several in by_policy.items()
    ]
    return sorted(found, key=lambda one: not one.stops)


def shared(findings: Iterable[Finding], part: str) -> str:
    """The text common to all findings; empty if they differ."""
    texts = {str(getattr(finding, part)) for finding in findings}
    return texts.pop() if len(texts) == 1 else ""


def name_of(finding: Finding) -> str:
    """The resource's Pulumi name; empty if the policy named none."""
    return finding.subject.rpartition("::")[2]


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
