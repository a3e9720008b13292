"""HPA windows and periods, converted to wall time.

The HPA controller measures them in whole seconds of wall time, so they are divided by the clock's speed: 2400 s at speed 120 are
20 s. Results below a second become a second, which slows scaling in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from lab.control_plane.api import Manifest

SYNC_SECONDS: Final = 15
"""Interval of the control loop. Source: kube-controller-manager, --horizontal-pod-autoscaler-sync-period."""
_DOUBLE: Final[Manifest] = {"type": "Percent", "value": 100, "periodSeconds": 15}
DEFAULTS: Final[Mapping[str, Manifest]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _DOUBLE],
    },
    "scaleDown": {"stabilizationWindowSeconds": 300, "policies": [_DOUBLE]},
}
"""Of a behavior's directions. Source: kubernetes v1.36.3, pkg/apis/autoscaling/v2/defaults.go."""
SHORTEST_SYNC_WALL_SECONDS: Final = 0.1
"""Minimum of the sync period, wall time. Assumed: a sync takes milliseconds."""


def sync_wall_seconds(speed: float) -> float:
    """The controller's sync period, wall time."""
    return max(SYNC_SECONDS / speed, SHORTEST_SYNC_WALL_SECONDS)


def on_the_wall(behavior: Mapping[str, Any] | None, speed: float) -> Manifest:
    """A behavior with Kubernetes' defaults, converted from simulated to wall seconds."""
    converted: Manifest = {}
    for direction, defaults in DEFAULTS.items():
        rules = {**defaults, **((behavior or {}).get(direction) or {})}
        window = rules["stabilizationWindowSeconds"]
        policies = [{**policy, "periodSeconds": _wall(policy["periodSeconds"], speed)} for policy in rules["policies"]]
        converted[direction] = {**rules, "stabilizationWindowSeconds": _wall(window, speed), "policies": policies}
    return converted


def _wall(seconds: int, speed: float) -> int:
    return max(1, ceil(seconds / speed)) if seconds else 0
