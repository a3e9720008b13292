"""What an HPA waits, on a clock that runs faster than Kubernetes' own controllers.

The HPA controller measures its windows and periods by the wall, in whole seconds. So the stand-in for KEDA writes them
divided by the clock's speed: 2400 s at speed 120 are 20 s. A result below one second becomes one second, which is longer than
the real one; that errs on the slow side, up and down.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from fleet.rehearse.api import Manifest

SYNC_SECONDS: Final = 15.0
"""How often the HPA controller looks. Source: kube-controller-manager, --horizontal-pod-autoscaler-sync-period."""
SHORTEST_SYNC_WALL_SECONDS: Final = 0.1
"""It looks no more often than this, however fast the clock. Assumed: a look takes some milliseconds."""
_DEFAULTS: Final[Mapping[str, Manifest]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 300,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    },
}
"""Source: kubernetes v1.36.3, pkg/apis/autoscaling/v2/defaults.go."""


def sync_wall_seconds(speed: float) -> float:
    """The controller's period on the wall."""
    return max(SYNC_SECONDS / speed, SHORTEST_SYNC_WALL_SECONDS)


def on_the_wall(behavior: Mapping[str, Any] | None, speed: float) -> Manifest:
    """A behavior of simulated seconds, with Kubernetes' defaults written out, in seconds of the wall."""
    found: Manifest = {}
    for direction, defaults in _DEFAULTS.items():
        rules = {**defaults, **((behavior or {}).get(direction) or {})}
        window = rules["stabilizationWindowSeconds"]
        policies = [{**one, "periodSeconds": _wall(one["periodSeconds"], speed)} for one in rules["policies"]]
        found[direction] = {**rules, "stabilizationWindowSeconds": _wall(window, speed), "policies": policies}
    return found


def _wall(seconds: int, speed: float) -> int:
    return max(1, ceil(seconds / speed)) if seconds else 0
