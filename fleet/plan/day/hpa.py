"""HorizontalPodAutoscaler arithmetic for external metrics (target AverageValue) and behaviors.

Source: kubernetes v1.36.3, pkg/controller/podautoscaler: horizontal.go (H) and replica_calculator.go (R); each rule names its function.
Defaults of behaviors: pkg/apis/autoscaling/v2/defaults.go. Not modeled: other metric types, and HPAScaleToZero, off in 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, Literal

SYNC_SECONDS: Final = 15
"""Interval of the control loop. Source: kube-controller-manager, --horizontal-pod-autoscaler-sync-period."""
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One external metric as the API returns it."""

    value: float | None
    """Sum over all series; None if the API returns an error."""
    target: float
    """Target average per replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One policy of a behavior."""

    type: Literal["Pods", "Percent"]
    value: int
    period_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """How fast replicas are added, or removed."""

    window_seconds: int
    """Stabilization window."""
    rates: tuple[Rate, ...]
    select: Literal["Max", "Min", "Disabled"] = "Max"
    tolerance: float = 0.1


_DOUBLE: Final = Rate(type="Percent", value=100, period_seconds=15)
SCALE_UP: Final = Behavior(window_seconds=0, rates=(Rate(type="Pods", value=4, period_seconds=15), _DOUBLE))
SCALE_DOWN: Final = Behavior(window_seconds=300, rates=(_DOUBLE,))


def desired_replicas(
    metrics: Sequence[Metric], current: int, up_tolerance: float = 0.1, down_tolerance: float = 0.1
) -> int | None:
    """Replicas that the metrics propose, before windows and rates; None for no change.

    H computeReplicasForMetrics: the largest proposal; no change if every metric fails, or one fails and the rest would scale down.
    """
    proposals = [
        proposal(metric, current, up_tolerance, down_tolerance) if metric.value is not None else None
        for metric in metrics
    ]
    valid = [one for one in proposals if one is not None]
    if not valid or (len(valid) < len(metrics) and max(valid) < current):
        return None
    return max(valid)


def proposal(metric: Metric, current: int, up_tolerance: float, down_tolerance: float) -> int:
    """R GetExternalPerPodMetricReplicas: ceil(sum / target), or the current number within the tolerance.

    Starting pods count as ready. Quantities are whole thousandths, as KEDA sends them.
    """
    assert metric.value is not None
    usage, target = int(metric.value * _MILLI), int(metric.target * _MILLI)
    if 1.0 - down_tolerance <= usage / (target * current) <= 1.0 + up_tolerance:
        return current
    return ceil(usage / target)


class Hpa:
    """One autoscaler with its history of recommendations and scale events."""

    def __init__(self, *, least: int, most: int, up: Behavior = SCALE_UP, down: Behavior = SCALE_DOWN) -> None:
        self._least, self._most, self._up, self._down = least, most, up, down
        self._recommended: list[tuple[int, float]] = []
        """Recommendations with the time each was last made."""
        self._added: list[tuple[int, float]] = []
        self._removed: list[tuple[int, float]] = []
        self._memory_seconds = max(up.window_seconds, down.window_seconds)

    def replicas(self, now: float, current: int, metrics: Sequence[Metric]) -> int:
        """The replica count set at `now` (seconds). H reconcileAutoscaler."""
        if not self._recommended:
            self._remember(current, now)  # H recordInitialRecommendation
        if current == 0:
            return 0  # "ScalingDisabled": the HPA never scales up from 0
        if current > self._most:
            wanted = self._most
        elif current < self._least:
            wanted = self._least
        else:
            asked = desired_replicas(metrics, current, self._up.tolerance, self._down.tolerance)
            wanted = current if asked is None else self._limited(self._stabilized(asked, current, now), current, now)
        if wanted > current:  # H storeScaleEvent
            self._added.append((wanted - current, now))
        elif wanted < current:
            self._removed.append((current - wanted, now))
        return wanted

    def _stabilized(self, asked: int, current: int, now: float) -> int:
        """H stabilizeRecommendationWithBehaviors: at most the lowest of the up window, at least the highest of the down window."""
        lowest = min([asked, *_younger(self._recommended, now - self._up.window_seconds)])
        highest = max([asked, *_younger(self._recommended, now - self._down.window_seconds)])
        self._remember(asked, now)
        return min(max(current, lowest), highest)

    def _remember(self, recommendation: int, now: float) -> None:
        if self._recommended and self._recommended[-1][0] == recommendation:
            self._recommended.pop()
        self._recommended.append((recommendation, now))
        while self._recommended[0][1] <= now - self._memory_seconds and len(self._recommended) > 1:
            self._recommended.pop(0)

    def _limited(self, wanted: int, current: int, now: float) -> int:
        """H convertDesiredReplicasWithBehaviorRate: rates and bounds."""
        if wanted > current:
            most = max(current, self._reach(self._up, current, now, adds=True))
            return min(wanted, self._most, most)
        if wanted < current:
            least = min(current, self._reach(self._down, current, now, adds=False))
            return max(wanted, self._least, least)
        return wanted

    def _reach(self, behavior: Behavior, current: int, now: float, *, adds: bool) -> int:
        """H calculateScaleUpLimitWithScalingRules and calculateScaleDownLimitWithBehaviors: limit of one step.

        A policy counts from the replicas at the start of its period. Percentages round up when scaling up, down when scaling down.
        """
        if behavior.select == "Disabled":
            return current
        reached = []
        for rate in behavior.rates:
            begin = now - rate.period_seconds
            start = current - sum(_younger(self._added, begin)) + sum(_younger(self._removed, begin))
            sign = 1 if adds else -1
            if rate.type == "Pods":
                reached.append(start + sign * rate.value)
            else:
                # As Go computes it: 10 % more than 50 is ceil(50 * 1.1) = 56 in its floating point.
                share = start * (1 + sign * rate.value / 100)
                reached.append(ceil(share) if adds else int(share))
        return max(reached) if adds == (behavior.select == "Max") else min(reached)


def _younger(entries: Sequence[tuple[int, float]], moment: float) -> list[int]:
    """Values after that moment; entries are in order of time."""
    values = []
    for value, at in reversed(entries):
        if at <= moment:
            break
        values.append(value)
    return values
