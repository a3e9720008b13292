"""How nodes with GPUs are bought on GKE: the limits of each way, as Google documents them."""

from __future__ import annotations

from typing import Final

SPOT_GRACE_SECONDS: Final = 15
"""What the kubelet leaves a non-system pod of the 30 s Spot notice. Source: GKE docs, Spot VMs, graceful termination."""
STEADY_GRACE_SECONDS: Final = 600
"""The longest grace that Autopilot honours at scale-down; above it a pod counts as extended-duration.
Source: GKE cluster autoscaler, extended-duration pods."""
FLEX_START_MIN_SECONDS: Final = 600
FLEX_START_MAX_SECONDS: Final = 604_800
"""Ten minutes to seven days. Source: GKE flex-start documentation; cluster autoscaler, injection rules."""
