"""A ComputeClass that tries several provisioning modes in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from facts.capacity import (
    LONG_SHUTDOWN_CRITICAL_SECONDS,
    LONG_SHUTDOWN_SECONDS,
    RECYCLE_LEAD_SECONDS,
)
from facts.cost import PRIORITIES
from facts.machines import DRIVER_VERSION
from settings.sections.capacity import ComputeClassMode, Placement, compute_class_name
from workloads.names import stack_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeClassArgs:
    """Arguments of `ComputeClass`."""

    namespace: str
    """Namespace of the servers, part of the ComputeClass's name."""
    capacity: ComputeClassMode
    """Provisioning modes, the priorities of the class. At least one."""
    placement: Placement
    """Machine type and zones of the nodes, which are the zones with the weights, and the time until GKE removes an empty node: longer than
    a replacement pod takes to be there."""
    extended_shutdown: bool = False
    """Whether Spot nodes have extended graceful node shutdown: pods have 105 s after a notice instead of 15. Needs GKE 1.35.0-gke.1171000:
    earlier versions refuse the class."""
    active_migration: bool = False
    """The class's `activeMigration`: whether replicas return to an earlier priority when it has capacity. A node there first, then the
    replica is evicted, and its successor starts. For two replicas or more: one alone would be down for the whole start."""


class ComputeClass(pulumi.ComponentResource):
    """The cluster-wide ComputeClass of `capacity.mode: compute-class`. Server pods select it by name only.

    GKE installs the kind some time after the cluster, and Pulumi retries for half a minute only: make this depend on a resource that
    takes longer.
    """

    compute_class: k8s.apiextensions.CustomResource

    def __init__(self, name: str, args: ComputeClassArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:ComputeClass", name, None, opts)
        self.compute_class = k8s.apiextensions.CustomResource(
            f"{name}-class",
            api_version="cloud.google.com/v1",
            kind="ComputeClass",
            metadata={"name": compute_class_name(args.namespace, args.placement.machine), "labels": stack_labels()},
            spec=compute_class_spec(args),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def compute_class_spec(args: ComputeClassArgs) -> dict[str, Any]:
    """Spec of the ComputeClass, with the modes as its priorities."""
    priorities = _priorities(args)
    spec: dict[str, Any] = {
        "nodePoolAutoCreation": {"enabled": True},
        # The alternative creates any machine, on which the pods stay Pending.
        "whenUnsatisfiable": "DoNotScaleUp",
        # An idle node costs as much as a busy one.
        "autoscalingPolicy": {"consolidationDelayMinutes": args.placement.idle_seconds // 60},
        "priorities": priorities,
    }
    if args.active_migration and len(priorities) > 1:
        # A node first, not a pod: the disruption budget lets one replica at a time go, the only one, too.
        spec["activeMigration"] = {"optimizeRulePriority": True}
    return spec


def _priorities(args: ComputeClassArgs) -> list[dict[str, Any]]:
    capacity, zones, machine = args.capacity, sorted(args.placement.zones), args.placement.machine
    node: dict[str, Any] = {
        "machineType": machine.type,
        "gpu": {"type": machine.accelerator, "count": machine.gpus, "driverVersion": DRIVER_VERSION},
    }
    modes: dict[str, dict[str, Any]] = {}
    if capacity.reservation is not None:
        reservation: dict[str, Any] = {"name": capacity.reservation.name, "zones": zones}
        if capacity.reservation.project is not None:
            reservation["project"] = capacity.reservation.project
        # A specific reservation implies its zones; the class is refused if `location.zones` is set too.
        modes["reservation"] = {**node, "reservations": {"affinity": "Specific", "specific": [reservation]}}
    # The weights exist only in these zones.
    elsewhere = {**node, "location": {"zones": zones, "locationPolicy": "ANY"}}
    if capacity.flex_start_seconds is not None:
        flex: dict[str, Any] = {"enabled": True}
        if capacity.is_recycled:
            flex["nodeRecycling"] = {"leadTimeSeconds": RECYCLE_LEAD_SECONDS}
        modes["flex-start"] = {**elsewhere, "flexStart": flex, "maxRunDurationSeconds": capacity.flex_start_seconds}
    if capacity.spot:
        spot: dict[str, Any] = {**elsewhere, "spot": True}
        if args.extended_shutdown:
            shutdown = {
                "shutdownGracePeriodSeconds": LONG_SHUTDOWN_SECONDS,
                "shutdownGracePeriodCriticalPodsSeconds": LONG_SHUTDOWN_CRITICAL_SECONDS,
            }
            spot["nodeSystemConfig"] = {"kubeletConfig": shutdown}
        modes["spot"] = spot
    return [modes[mode] for mode in PRIORITIES if mode in modes]
