"""What the spending guard sees of a pod, and what it decides. Pure: no request, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from workloads.spending.total import RESERVATION, Sum, Terms

GPU: Final = "nvidia.com/gpu"
ACCELERATORS: Final = ("nvidia.com/", "google.com/tpu")
"""Beginnings of the names of resources for which GKE adds expensive machines."""
WARN_AT: Final = (0.5, 0.8, 0.95)
"""Shares of the limit that are told."""


class Pod(NamedTuple):
    """What the guard keeps of a pod."""

    name: str
    uid: str
    node: str
    has_gpus: bool
    grace_seconds: float
    """Of its deletion if it is being deleted, else what its spec asks for."""
    is_deleted: bool


def decide(total: Sum, terms: Terms, here: set[str], priorities: Mapping[str, str], date: float) -> str:
    """The term that is reached, limit or until; empty if none is. Updates what is still owed if everything stops now."""
    hourly = sum(terms.usd_of(priorities.get(node, "")) for node in here)
    owed = hourly * (terms.grace_seconds + terms.idle_seconds) / 3600
    # While paused no machine is left, and without what was owed the same limit would resume the fleet.
    total.owed = max(owed, total.owed) if total.reason else owed
    if terms.limit_usd is not None and total.usd + total.owed >= terms.limit_usd:
        return "limit"
    return "until" if terms.until and date >= datetime.fromisoformat(terms.until).timestamp() else ""


def share_of(total: Sum, terms: Terms, reason: str) -> float:
    """Largest told share of the limit that is passed; 1 where a term is reached that only warns. Falls with a higher limit."""
    if reason and terms.then == "warn":
        return 1.0
    limit = terms.limit_usd
    return max((share for share in WARN_AT if limit and total.usd >= share * limit), default=0.0)


def priority_of(labels: Mapping[str, str]) -> str:
    """The ComputeClass's priority that a node is of, by the labels that GKE gives it; empty if it is of none."""
    if "cloud.google.com/reservation-name" in labels:
        return RESERVATION
    priorities = {"cloud.google.com/gke-spot": "spot", "cloud.google.com/gke-flex-start": "flex-start"}
    return next((priority for label, priority in priorities.items() if labels.get(label) == "true"), "")


def pod_of(manifest: Any) -> Pod:
    """A pod. It has GPUs if any container asks for some, including sidecars and containers that run only at the start."""
    metadata, spec = manifest["metadata"], manifest["spec"]
    has_gpus = bool(spec.get("resourceClaims")) or any(
        resource.startswith(ACCELERATORS) and amount != "0"
        for container in (spec, *spec["containers"], *(spec.get("initContainers") or ()))
        for part in ("requests", "limits")
        for resource, amount in ((container.get("resources") or {}).get(part) or {}).items()
    )
    is_deleted = bool(metadata.get("deletionTimestamp"))
    asked = metadata.get("deletionGracePeriodSeconds") if is_deleted else spec.get("terminationGracePeriodSeconds")
    node = spec.get("nodeName") or ""
    return Pod(metadata["name"], metadata["uid"], node, has_gpus, asked or 0, is_deleted)
