"""What the spending guard sees of the cluster in one turn, and what it decides. Pure: no request, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from workloads.spending.total import RESERVATION, Sum, Terms

GPU: Final = "nvidia.com/gpu"
ACCELERATORS: Final = ("nvidia.com/", "google.com/tpu")
"""Beginnings of the names of resources for which GKE adds expensive machines."""


class Pod(NamedTuple):
    """What the guard keeps of a pod."""

    name: str
    uid: str
    node: str
    has_gpus: bool
    grace_seconds: float
    """Of its deletion if it is being deleted, else what its spec asks for."""
    is_deleted: bool


@dataclass(frozen=True)
class Observed:
    """One turn's view of the cluster."""

    rungs: Mapping[str, str]
    """Rungs of the ladder's machines that are known, by name."""
    pods: list[Pod]
    """Pods with GPUs, and pods without on a machine that is counted: they keep it running."""
    date: float
    """The API server's clock, seconds since 1970."""
    clock_is_steady: bool
    """Whether that clock advanced like the process's since the last turn."""
    sum_is_unreadable: bool
    """Whether the stored sum could not be read for so long that it was logged."""
    may_be_paused: bool
    """Whether a pause may be in force: this sum's, or one that an earlier guard left."""

    @property
    def machines(self) -> set[str]:
        """Names of the machines with these pods."""
        return {pod.node for pod in self.pods if pod.node}


class Action(Enum):
    """What to do with the fleet."""

    NOTHING = "nothing"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True)
class Verdict:
    """The decision of one turn."""

    action: Action
    reason: str
    """The term that is reached: limit, until or unknown; empty if none is."""
    owed_usd: float
    """Cost that is still to come if everything stops now."""
    warned_share: float
    """Largest step of the limit that is passed, 1 if `then` is warn and a term is reached."""


def decide(total: Sum, terms: Terms, observed: Observed) -> Verdict:
    """Whether the fleet is paused or resumed. `total` includes this turn's cost."""
    hourly = sum(terms.usd_of(observed.rungs.get(node, "")) for node in observed.machines)
    owed = hourly * (terms.grace_seconds + terms.idle_seconds) / 3600
    if total.reason:
        # While paused no machine is left, and without what was owed the same limit would resume the fleet.
        owed = max(owed, total.owed)
    reason = _reached(total, terms, observed, owed)
    action = Action.RESUME if observed.may_be_paused else Action.NOTHING
    if reason and terms.then == "pause":
        action = Action.PAUSE
    return Verdict(action, reason, owed, _warned_share(total, terms, reason))


def _reached(total: Sum, terms: Terms, observed: Observed, owed: float) -> str:
    """The first term that is reached: limit, until or unknown."""
    if terms.limit_usd is not None and total.usd + owed >= terms.limit_usd:
        return "limit"
    if terms.until:
        is_over = observed.date >= datetime.fromisoformat(terms.until).timestamp()
        # A clock that jumps neither starts nor ends a pause.
        if is_over if observed.clock_is_steady else total.reason:
            return "until"
    is_unknown = terms.unknown or total.unknown or observed.sum_is_unreadable
    return "unknown" if is_unknown and terms.on_unknown == "pause" else ""


def _warned_share(total: Sum, terms: Terms, reason: str) -> float:
    """Falls with a higher limit, so that its steps are logged again."""
    if reason and terms.then == "warn":
        return 1.0
    limit = terms.limit_usd
    return max((share for share in terms.warn_at if limit and total.usd >= share * limit), default=0.0)


def rung_of(labels: Mapping[str, str]) -> str:
    """The ladder's rung that a node is of, by the labels that GKE gives it; empty if it is of none."""
    if "cloud.google.com/reservation-name" in labels:
        return RESERVATION
    rungs = {"cloud.google.com/gke-spot": "spot", "cloud.google.com/gke-flex-start": "flex-start"}
    return next((rung for label, rung in rungs.items() if labels.get(label) == "true"), "")


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
