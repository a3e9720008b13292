"""Labels of nodes, as GKE has them. Source: facts/node_labels.py."""

from __future__ import annotations

from typing import Final

GKE: Final = "cloud.google.com"
GPU_LABEL: Final = f"{GKE}/gke-accelerator"
GPU_COUNT_LABEL: Final = f"{GKE}/gke-accelerator-count"
LOCAL_SSD: Final = f"{GKE}/gke-ephemeral-storage-local-ssd"
SPOT: Final = f"{GKE}/gke-spot"
ZONE: Final = "topology.kubernetes.io/zone"
MACHINE_TYPE: Final = "node.kubernetes.io/instance-type"
