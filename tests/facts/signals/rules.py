"""A catalogue's recordings and alerts in Prometheus' rules format."""

from __future__ import annotations

from typing import Any

from facts.signals.model import Catalogue


def recordings(every: Catalogue) -> list[dict[str, Any]]:
    """With the label `namespace`, which managed Prometheus adds to those of a `Rules` object."""
    namespace = {"namespace": every.watched.namespace}
    return [{**rule, "labels": {**rule["labels"], **namespace}} for rule in every.recording_group()["rules"]]


def alerts(every: Catalogue) -> list[dict[str, Any]]:
    """One rule for each alert."""
    return [{"alert": one.name, "expr": one.expr, "for": f"{one.for_seconds}s"} for one in every.alerts]
