"""The ladder: a ComputeClass that asks for nodes in one place after another until one has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from facts.machines import DEFAULT_MACHINE, DRIVER_VERSION, Machine
from settings.sections.capacity import Ladder

RECYCLE_LEAD_SECONDS = 3600
"""A flex-start node is replaced this long before its time is up: node start, weights and compilation took the article
about 16 minutes, and there may be a queue. Source of the field: GKE docs, ComputeClass, nodeRecycling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityLadderArgs:
    """Arguments of `CapacityLadder`."""

    class_name: str
    """Name of the ComputeClass, e.g. "b200-ladder-vllm": unique in the cluster, and not beginning with `gke` or `autopilot`."""
    ladder: Ladder
    """The rungs: which places are asked for nodes, in which order. At least one."""
    zones: Sequence[str]
    """Zones of the nodes, e.g. ("us-central1-b",): those that have the weights."""
    machine: Machine = DEFAULT_MACHINE
    """The machine that every rung asks for. Default: the article's, a4-highgpu-8g."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the ComputeClass."""

    def __post_init__(self) -> None:
        if self.class_name.startswith(("gke", "autopilot")):
            raise ValueError(
                f"CapacityLadderArgs.class_name is {self.class_name!r}; allowed: a name that does not begin with gke or autopilot"
            )
        if self.ladder.reservation is None and self.ladder.flex_start_seconds is None and not self.ladder.spot:
            raise ValueError("CapacityLadderArgs.ladder has no rung; give it a reservation, flex_start_seconds or spot")
        if not self.zones:
            raise ValueError("CapacityLadderArgs.zones is empty; name the zones that have the weights")


class CapacityLadder(pulumi.ComponentResource):
    """The cluster-wide ComputeClass of `capacity.mode: ladder`; server pods select it by name and nothing else.

    GKE brings the kind some time after the cluster, and Pulumi looks for it for half a minute: let it depend on what takes
    longer.
    """

    compute_class: k8s.apiextensions.CustomResource

    def __init__(self, name: str, args: CapacityLadderArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:CapacityLadder", name, None, opts)
        self.compute_class = k8s.apiextensions.CustomResource(
            f"{name}-class",
            api_version="cloud.google.com/v1",
            kind="ComputeClass",
            metadata={"name": args.class_name, "labels": dict(args.labels)},
            spec=compute_class_spec(args.ladder, args.zones, args.machine),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def compute_class_spec(ladder: Ladder, zones: Sequence[str], machine: Machine) -> dict[str, Any]:
    """Spec of the ComputeClass: the rungs in the order in which they are tried."""
    return {
        "nodePoolAutoCreation": {"enabled": True},
        # The other choice hands out whatever machine there is, and the pods stay Pending beside it.
        "whenUnsatisfiable": "DoNotScaleUp",
        "priorities": _rungs(ladder, sorted(zones), machine),
    }


def _rungs(ladder: Ladder, zones: list[str], machine: Machine) -> list[dict[str, Any]]:
    node: dict[str, Any] = {
        "machineType": machine.type,
        "gpu": {"type": machine.accelerator, "count": machine.gpus, "driverVersion": DRIVER_VERSION},
    }
    rungs: list[dict[str, Any]] = []
    if ladder.reservation is not None:
        reservation: dict[str, Any] = {"name": ladder.reservation.name, "zones": zones}
        if ladder.reservation.project is not None:
            reservation["project"] = ladder.reservation.project
        # A specific reservation brings its zones itself: with `location.zones` beside it the class is refused.
        rungs.append({**node, "reservations": {"affinity": "Specific", "specific": [reservation]}})
    # The weights are in these zones only.
    elsewhere = {**node, "location": {"zones": zones, "locationPolicy": "ANY"}}
    if ladder.flex_start_seconds is not None:
        flex: dict[str, Any] = {"enabled": True}
        if ladder.flex_start_seconds > 2 * RECYCLE_LEAD_SECONDS:
            flex["nodeRecycling"] = {"leadTimeSeconds": RECYCLE_LEAD_SECONDS}
        rungs.append({**elsewhere, "flexStart": flex, "maxRunDurationSeconds": ladder.flex_start_seconds})
    if ladder.spot:
        rungs.append({**elsewhere, "spot": True})
    return rungs
