"""Which of a node's labels a pod may select on Autopilot: GKE Warden refuses every other key."""

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
    # Named by Warden itself ("Autopilot only allows labels with keys: ..."). Source: what it said in public reports of
    # March 2024 (github.com/rancher/dashboard/issues/10564) and February 2025 (github.com/GoogleCloudPlatform/ai-on-gke/pull/983),
    # of which the end is not quoted.
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
    # resources", flex-start; that reservation-blocks, gke-provisioning and the run duration are for Autopilot, too, was not
    # read again (unverified). CPU platforms are left out: nothing here asks for one.
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
    # Read from pods by the cluster autoscaler (injection.go); that Warden lets them through was found nowhere (unverified).
    "cloud.google.com/gke-node-recycle-lead-time-seconds",
    "cloud.google.com/gke-capacity-check-wait-time-seconds",
)
"""Keys of nodeSelector and node affinity. `node.kubernetes.io/instance-type`, `kubernetes.io/hostname` and
`cloud.google.com/gke-nodepool` are on no list that was found."""

SELECTABLE_BESIDE_A_CLASS: Final = (
    "cloud.google.com/compute-class",
    *_PLACES,
    "cloud.google.com/gke-accelerator-count",
    *_TPUS,
)
"""The same for a pod that selects a ComputeClass of its own ("Custom Compute Classes can only be used along labels with keys: ...").
Source: Warden's message of July 2025 (github.com/newrelic/newrelic-prometheus-configurator/issues/472), which is whole."""

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
"""Compute classes that GKE brings. Source: GKE docs, built-in ComputeClasses; cluster autoscaler, compute_classes.go."""
