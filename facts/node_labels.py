"""Node labels that a pod can select on Autopilot; GKE Warden rejects all other keys."""

from __future__ import annotations

from typing import Final

_TPUS: Final = ("cloud.google.com/gke-tpu-topology", "cloud.google.com/gke-tpu-accelerator")
_PLACES: Final = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
)

SELECTABLE: Final = (
    # From Warden's message "Autopilot only allows labels with keys: ...". Source: public reports of March 2024
    # (github.com/rancher/dashboard/issues/10564) and February 2025 (github.com/GoogleCloudPlatform/ai-on-gke/pull/983), both truncated.
    "cloud.google.com/compute-class",
    "cloud.google.com/machine-family",
    "cloud.google.com/gke-ephemeral-storage-local-ssd",
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-placement-group",
    *_PLACES,
    "cloud.google.com/gke-os-distribution",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "cloud.google.com/private-node",
    "sandbox.gke.io/runtime",
    "cloud.google.com/gke-accelerator",
    # Documented for pods on Autopilot. Source: GKE docs, "Deploy GPU workloads in Autopilot", "Consuming reserved zonal
    # resources", flex-start. reservation-blocks, gke-provisioning and the run duration on Autopilot are unverified. CPU platforms are
    # left out, because they are not used here.
    *_TPUS,
    "cloud.google.com/gke-accelerator-count",
    "cloud.google.com/gke-gpu-driver-version",
    "cloud.google.com/gke-provisioning",
    "cloud.google.com/gke-flex-start",
    "cloud.google.com/gke-max-run-duration-seconds",
    "cloud.google.com/reservation-name",
    "cloud.google.com/reservation-project",
    "cloud.google.com/reservation-affinity",
    "cloud.google.com/reservation-blocks",
    # Read by the cluster autoscaler (injection.go); whether Warden allows them is unverified.
    "cloud.google.com/gke-node-recycle-lead-time-seconds",
    "cloud.google.com/gke-capacity-check-wait-time-seconds",
)
"""Keys for nodeSelector and node affinity. No source lists `node.kubernetes.io/instance-type`, `kubernetes.io/hostname` and
`cloud.google.com/gke-nodepool`."""

SELECTABLE_BESIDE_A_CLASS: Final = (
    "cloud.google.com/compute-class",
    *_PLACES,
    "cloud.google.com/gke-accelerator-count",
    *_TPUS,
)
"""Keys for a pod that selects a custom ComputeClass ("Custom Compute Classes can only be used along labels with keys: ...").
Source: Warden's complete message of July 2025 (github.com/newrelic/newrelic-prometheus-configurator/issues/472)."""

BUILT_IN_CLASSES: Final = (
    "Performance",
    "Accelerator",
    "Balanced",
    "Scale-Out",
    "autopilot",
    "autopilot-spot",
    "autopilot-arm",
    "autopilot-arm-spot",
)
"""Built-in compute classes of GKE. Source: GKE docs, built-in ComputeClasses; cluster autoscaler, compute_classes.go."""
