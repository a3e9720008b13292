"""Google's limits of the provisioning modes of GPU nodes on GKE, and how long a node is waited for."""

from __future__ import annotations

from typing import Final

SPOT_NOTICE_SECONDS: Final = 15
"""Time of a non-critical pod after a Spot notice, whatever its grace period: the first half of the notice's 30 s. It applies to
preemptions only. Source: GKE docs, Spot VMs, graceful termination."""
LONG_SHUTDOWN_SECONDS: Final = 120
LONG_SHUTDOWN_CRITICAL_SECONDS: Final = 15
"""Shutdown of a Spot node of a ComputeClass that says so, and its last part, for critical pods; other pods have the rest, 105 s. From GKE
`gke_releases.LONG_NOTICE` on. Source: GKE docs, Spot VMs; the definition of ComputeClass, kubeletConfig (0, 30 or 120)."""
MAX_GRACE_SECONDS: Final = 600
"""Maximum grace period that Autopilot honors at scale-down, on Spot nodes too; a pod with a longer one is extended-duration, which
Spot does not support. Source: GKE cluster autoscaler, extended-duration pods; GKE docs, Extend the run time of Autopilot Pods."""
PROVISIONING_MINUTES: Final = 15
"""Minutes to wait for a node, beside the wait at flex-start. Measured: 5 to 6 in the article; the rest is margin for nearly full zones."""
IDLE_SECONDS: Final = 600
"""Time until GKE removes an empty node. Source: cluster autoscaler FAQ, --scale-down-unneeded-time."""
CLASS_IDLE_SECONDS: Final = 60
"""The least that a ComputeClass may set instead. Source: its definition, consolidationDelayMinutes, 1 to 1440."""
FULL_QUOTA_IDLE_SECONDS: Final = 360
"""Long enough for a replacement pod where the GPU quota has no room beside the old one, which counts until it is gone, up to
`MAX_GRACE_SECONDS`. The refused ReplicaSet tries again 41, 82, 164, 328 and 655 s after its first attempt (`quota_retry_seconds`): the
node is empty for up to 327 s."""
REMOVAL_SECONDS: Final = 60
"""How long the removal of an idle machine takes, while it is still paid. Assumed."""
LEAST_USEFUL_SECONDS: Final = 3_600
"""Shortest time that a flex-start node must serve. Assumed: a few times its start."""
FLEX_START_WAIT_SECONDS: Final = 900
"""How long the autoscaler waits at flex-start for a machine, before it tries the next priority or starts anew; until then it logs no
stock-out. A ComputeClass can only lengthen it. Source: cluster autoscaler at 7d25050, pkg/cloudprovider/gke/gke_cloud_provider_impl.go,
DefaultFlexStartCapacityCheckWaitTime; gke_manager.go, capacityCheckWaitTimeSecondsLabelValue; gceclient/autoscaling_gce_client.go,
ignoreInstanceCreationStockoutErrors."""
FLEX_START_MIN_SECONDS: Final = 600
FLEX_START_MAX_SECONDS: Final = 604_800
"""Ten minutes to seven days. Source: GKE flex-start documentation; cluster autoscaler, injection rules."""
RECYCLE_LEAD_SECONDS: Final = 3600
"""Lead time for replacing a flex-start node before it ends: node start, weights and compilation took the article about 16 minutes, plus
a queue. Source of the field: GKE docs, ComputeClass, nodeRecycling."""


def quota_retry_seconds(gone_seconds: float) -> float:
    """Seconds from the first attempt at a pod to the one that succeeds, where the GPU quota has no room until the old pod is gone after
    `gone_seconds`. Source: Kubernetes, ReplicaSet controller, retries after 5 ms, doubled each time.
    """
    waited, delay = 0.0, 0.005
    while waited < gone_seconds:
        waited, delay = waited + delay, 2 * delay
    return waited
