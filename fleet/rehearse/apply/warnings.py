"""What an API server warns of while it takes an object, as findings: Autopilot's rules first of all, then its own opinion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from fleet.rehearse.autopilot.verdicts import verdict
from fleet.rehearse.results import Finding

OF_A_CHART: Final = (
    "set it in the chart's values if they have a place for it; "
    "if not, nothing is to be done: the object is accepted as it is"
)


def warning_findings(urn: str, name: str, warnings: Iterable[str], *, of_chart: bool = False) -> tuple[Finding, ...]:
    """One finding for each different warning about the resource `urn`, which is `Kind/name` in the cluster.

    A rule that GKE enforces only when pods are made is an error although the object itself was accepted. `of_chart`: the
    objects are a chart's, of which a stack file says only what the chart's values offer.
    """
    found = tuple(_finding(urn, name, text) for text in dict.fromkeys(warnings))
    return tuple(replace(one, fix=OF_A_CHART) if of_chart and one.severity == "warning" else one for one in found)


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
