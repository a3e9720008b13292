"""Violations of Autopilot's rules, parsed from refusals and warnings of the API server."""

from __future__ import annotations

import re
from dataclasses import dataclass

from facts.finding import Finding
from lab.autopilot.policies import Effect, policies

_SAID = re.compile(r"ValidatingAdmissionPolicy '([^']+)' with binding '[^']+'(?: denied request)?: (.*)$", re.DOTALL)
"""Source: Kubernetes 1.36, apiserver's admission plugin; both of its sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A violated rule."""

    policy: str
    effect: Effect
    """GKE's reaction."""
    problem: str
    """The violation, with its value."""
    fix: str
    """What to write instead."""
    source: str
    """Document of GKE's rule."""

    def finding(self, subject: str) -> Finding:
        """As a finding: an error if GKE would refuse the object or leave it pending."""
        broken = self.effect in ("refused", "pending")
        return Finding(
            id=self.policy,
            severity="error" if broken else "warning",
            subject=subject,
            found=f"{self.problem} (rule {self.policy}; {self.source})",
            write=self.fix,
        )


def verdict(text: str) -> Verdict | None:
    """The verdict in a refusal or warning; None for other messages."""
    match = _SAID.search(text)
    if match is None:
        return None
    policy = next((one for one in policies() if one.name == match.group(1)), None)
    if policy is None:
        return None
    problem, _, fix = match.group(2).strip().partition(". ")
    return Verdict(policy=policy.name, effect=policy.effect, problem=problem, fix=fix, source=policy.source)
