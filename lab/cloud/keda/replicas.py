"""KEDA's arithmetic beside the HPA's: a fallback's metric, and the replicas that KEDA writes itself.

Source: keda v2.20.2, pkg/fallback/fallback.go (above the failure threshold the query returns replicas times target),
pkg/scaling/executor/scale_scaledobjects.go (from zero when a trigger is active; to zero in one step after the cooldown).
"""

from __future__ import annotations

from typing import Final

COOLDOWN_SECONDS: Final = 300
"""Source: KEDA, default of cooldownPeriod."""
POLLING_SECONDS: Final = 30
"""Source: KEDA, default of pollingInterval."""


def fallback_value(behavior: str, replicas: int, target: float, current: int) -> float:
    """The metric for which the HPA scales to the fallback's replicas."""
    wanted = {
        "currentReplicas": current,
        "currentReplicasIfHigher": max(current, replicas),
        "currentReplicasIfLower": min(current, replicas),
    }
    return target * wanted.get(behavior, replicas)


def own_replicas(
    *, active: bool, failing: bool, fallback: int | None, current: int, least: int, idle_seconds: float, cooldown: float
) -> int:
    """Replicas after a poll, before the HPA: KEDA scales from zero, to zero, and up to its minimum.

    `failing`: at least one trigger could not be read. `fallback`: replicas of the fallback; None without one.
    `idle_seconds`: since a trigger was active.
    """
    if active:
        return current or max(least, 1)
    if failing and fallback != 0:
        return current
    if least == 0:
        return 0 if idle_seconds > cooldown else current
    return max(current, least)
