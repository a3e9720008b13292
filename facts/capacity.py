"""Google's limits of the provisioning modes of GPU nodes on GKE."""

from __future__ import annotations

from typing import Final

SPOT_NOTICE_SECONDS: Final = 15
"""Time of a non-critical pod after a Spot notice, whatever its grace period: the first half of the notice's 30 s. It applies to
preemptions only. Source: GKE docs, Spot VMs, graceful termination."""
MAX_GRACE_SECONDS: Final = 600
"""Maximum grace period that Autopilot honors at scale-down, on Spot nodes too; a pod with a longer one is extended-duration, which
Spot does not support. Source: GKE cluster autoscaler, extended-duration pods; GKE docs, Extend the run time of Autopilot Pods."""
FLEX_START_MIN_SECONDS: Final = 600
FLEX_START_MAX_SECONDS: Final = 604_800
"""Ten minutes to seven days. Source: GKE flex-start documentation; cluster autoscaler, injection rules."""
