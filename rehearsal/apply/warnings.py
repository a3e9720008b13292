"""What an API server warns of while it takes an object, as findings: Autopilot's rules first of all, then its own opinion."""

from __future__ import annotations

from collections.abc import Iterable

from rehearsal.autopilot.verdicts import verdict
from rehearsal.results import Finding


def warning_findings(urn: str, name: str, warnings: Iterable[str]) -> tuple[Finding, ...]:
    """One finding for each different warning about the resource `urn`, which is `Kind/name` in the cluster.

    A rule that GKE enforces only when pods are made is an error although the object itself was accepted.
    """
    return tuple(_finding(urn, name, text) for text in dict.fromkeys(warnings))


def _finding(urn: str, name: str, text: str) -> Finding:
    broken = verdict(text)
    if broken is not None:
        return broken.finding(urn)
    return Finding(
        severity="warning",
        subject=urn,
        message=f"{name} is accepted, and the API server warns: {text}",
        fix="write it as the warning says; what is only warned of now may be refused by a later Kubernetes",
    )
