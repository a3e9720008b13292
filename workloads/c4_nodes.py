"""Node selection for C4 machines: fast single threads for load clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import TolerationArgsDict

_GKE: Final = "cloud.google.com"
COMPUTE_CLASS: Final = "Performance"
"""Compute class with C4 and C4A. Each pod pays for its whole machine. Source: GKE docs, Performance compute class."""
MACHINE_FAMILY: Final = "c4"


def node_selector() -> dict[str, str]:
    """Selector for a C4 machine. Its size follows from the pod's requests: Autopilot refuses a selector on the machine type, creates
    the smallest machine that fits, and gives each pod of this class its own machine.

    Source: facts/node_labels.py; GKE cluster autoscaler, compute_classes.go (sliceOfHardware), podpervmgenerators.go.
    """
    return {f"{_GKE}/compute-class": COMPUTE_CLASS, f"{_GKE}/machine-family": MACHINE_FAMILY}


def toleration() -> TolerationArgsDict:
    """Toleration for the class's nodes, which Autopilot taints. Autopilot also adds it; set explicitly so as not to depend on that."""
    return {"key": f"{_GKE}/compute-class", "operator": "Equal", "value": COMPUTE_CLASS, "effect": "NoSchedule"}
