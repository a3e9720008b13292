"""What Autopilot's rules said, read back from an API server's refusal or warning."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.rehearse.autopilot.policies import Effect, policies
from fleet.rehearse.results import Finding

_SAID = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '[^']+'(?: denied request)?: (.*)$", re.DOTALL)
"""Source: Kubernetes 1.36, apiserver's admission plugin; both of its sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rule, broken."""

    policy: str
    effect: Effect
    """What GKE does about it."""
    problem: str
    """What is wrong, with the value."""
    fix: str
    """What to write instead."""
    source: str
    """Where GKE's rule is written."""

    def finding(self, subject: str) -> Finding:
        """The verdict on a resource of the stack: an error where GKE would refuse it or never give it a node."""
        broken = self.effect in ("refused", "pending")
        return Finding(
            severity="error" if broken else "warning",
            subject=subject,
            message=f"{self.problem} (rule {self.policy}; {self.source})",
            fix=self.fix,
        )


def verdict(text: str) -> Verdict | None:
    """The verdict in a refusal's message or in a warning; None when another part of the API server speaks."""
    match = _SAID.search(text)
    if match is None:
        return None
    policy = next((one for one in policies() if one.name == match.group(1)), None)
    if policy is None:
        return None
    problem, _, fix = match.group(2).strip().partition(". ")
    return Verdict(policy=policy.name, effect=policy.effect, problem=problem, fix=fix, source=policy.source)


def verdicts(warnings: list[str]) -> list[Verdict]:
    """Those of the warnings that are verdicts."""
    return [one for one in map(verdict, warnings) if one is not None]
