"""How a pod asks Autopilot for a C4 machine: fast single threads for load clients and the endpoint picker."""

from __future__ import annotations

from typing import Any, Final

from workloads.manifest import Manifest

_GKE: Final = "cloud.google.com"
COMPUTE_CLASS: Final = "Performance"
"""The compute class that has C4, and C4A; its pods pay for the whole machine. Source: GKE docs, Performance compute class."""
MACHINE_FAMILY: Final = "c4"


def node_selector() -> dict[str, str]:
    """Selector for a C4 machine. Its size follows from the pod's requests: Autopilot refuses a selector on the machine type, makes
    the smallest machine that holds the pod, and gives each pod of this class a machine of its own.

    Source: facts/node_labels.py; GKE cluster autoscaler, compute_classes.go (sliceOfHardware), podpervmgenerators.go.
    """
    return {f"{_GKE}/compute-class": COMPUTE_CLASS, f"{_GKE}/machine-family": MACHINE_FAMILY}


def node_affinity() -> dict[str, Any]:
    """The same by affinity, for a chart that knows no nodeSelector.

    One term with two expressions: terms are alternatives, and the class alone may bring another family.
    """
    term = {
        "matchExpressions": [
            {"key": f"{_GKE}/compute-class", "operator": "In", "values": [COMPUTE_CLASS]},
            {"key": f"{_GKE}/machine-family", "operator": "In", "values": [MACHINE_FAMILY]},
        ]
    }
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def toleration() -> Manifest:
    """For every pod of the class: Autopilot taints its nodes. It also adds this by itself; written, it survives without that."""
    return {"key": f"{_GKE}/compute-class", "operator": "Equal", "value": COMPUTE_CLASS, "effect": "NoSchedule"}
