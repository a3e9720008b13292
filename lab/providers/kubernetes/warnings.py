"""Warnings of the API server for accepted objects, as findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from facts.finding import Finding
from lab.cloud.autopilot.verdicts import verdict

OF_A_CHART: Final = (
    "set it in the chart's values if they allow it; otherwise no action is needed: the object is accepted"
)


def warning_findings(urn: str, name: str, warnings: Iterable[str], *, of_chart: bool = False) -> tuple[Finding, ...]:
    """One finding per distinct warning about the resource `urn`; `name` is its `Kind/name`.

    A rule that GKE enforces only when pods are created is an error although the object was accepted. `of_chart`: the objects
    come from a Helm chart, so a stack file can only change what the chart's values offer.
    """
    found = tuple(_finding(urn, name, text) for text in dict.fromkeys(warnings))
    return tuple(replace(one, write=OF_A_CHART) if of_chart and one.severity == "warning" else one for one in found)


def _finding(urn: str, name: str, text: str) -> Finding:
    broken = verdict(text)
    if broken is not None:
        return broken.finding(urn)
    return Finding(
        id="api-warning",
        subject=urn,
        severity="warning",
        found=f"{name} is accepted with a warning: {text}",
        write="follow the warning: a later Kubernetes may refuse it",
    )
