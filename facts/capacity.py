"""Google's limits of the provisioning modes of GPU nodes on GKE."""

from __future__ import annotations

from typing import Final

SPOT_GRACE_SECONDS: Final = 15
"""Grace period of a non-system pod within the 30 s Spot notice. Source: GKE docs, Spot VMs, graceful termination."""
STEADY_GRACE_SECONDS: Final = 600
"""Maximum grace period that Autopilot honors at scale-down; a pod with a longer one is extended-duration.
Source: GKE cluster autoscaler, extended-duration pods."""
FLEX_START_MIN_SECONDS: Final = 600
FLEX_START_MAX_SECONDS: Final = 604_800
"""Ten minutes to seven days. Source: GKE flex-start documentation; cluster autoscaler, injection rules."""
