"""HPA windows and periods, converted to wall time.

The HPA controller measures them in whole seconds of wall time, so they are divided by the clock's speed: 2400 s at speed 120 are
20 s. Results below a second become a second, which slows scaling in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from fleet.plan.day.hpa import SCALE_DOWN, SCALE_UP, SYNC_SECONDS, Behavior
from lab.control_plane.api import Manifest

SHORTEST_SYNC_WALL_SECONDS: Final = 0.1
"""Minimum of the sync period, wall time. Assumed: a sync takes milliseconds."""


def sync_wall_seconds(speed: float) -> float:
    """The controller's sync period, wall time."""
    return max(SYNC_SECONDS / speed, SHORTEST_SYNC_WALL_SECONDS)


def on_the_wall(behavior: Mapping[str, Any] | None, speed: float) -> Manifest:
    """A behavior with Kubernetes' defaults, converted from simulated to wall seconds."""
    converted: Manifest = {}
    for direction, defaults in (("scaleUp", SCALE_UP), ("scaleDown", SCALE_DOWN)):
        rules = {**_rules(defaults), **((behavior or {}).get(direction) or {})}
        window = rules["stabilizationWindowSeconds"]
        policies = [{**policy, "periodSeconds": _wall(policy["periodSeconds"], speed)} for policy in rules["policies"]]
        converted[direction] = {**rules, "stabilizationWindowSeconds": _wall(window, speed), "policies": policies}
    return converted


def _rules(defaults: Behavior) -> Manifest:
    policies = [
        {"type": rate.type, "value": rate.value, "periodSeconds": rate.period_seconds} for rate in defaults.rates
    ]
    return {"stabilizationWindowSeconds": defaults.window_seconds, "policies": policies}


def _wall(seconds: int, speed: float) -> int:
    return max(1, ceil(seconds / speed)) if seconds else 0
