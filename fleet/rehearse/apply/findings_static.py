"""Findings before the apply: waits that never end, failures, and missing dependencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleet.preview.record.recording import RecordedResource, Recording
from fleet.rehearse.api import Manifest
from fleet.rehearse.apply import findings_order, findings_storage, findings_waiting
from fleet.rehearse.apply.catalogue import Catalogue
from fleet.rehearse.results import Finding


def static_findings(
    recording: Recording, chart_objects: Callable[[RecordedResource], Sequence[Manifest]] | None = None
) -> tuple[Finding, ...]:
    """Findings from the program's graph, errors first. `chart_objects` returns the objects of a Helm release."""
    catalogue = Catalogue(recording, chart_objects)
    found = [
        Finding(severity="error", subject=resource.urn, message=why, fix="correct this value")
        for resource, why in catalogue.unreadable
    ]
    for module in (findings_order, findings_storage, findings_waiting):
        found.extend(module.findings(catalogue))
    return tuple(sorted(found, key=lambda one: (one.severity != "error", one.subject, one.message)))
