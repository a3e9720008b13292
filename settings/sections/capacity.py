"""Section `capacity`, and what follows from it: selectors, tolerations, rollout, price.

Many machine types are not sold on demand, such as the article's A4 ("A note on GPU provisioning"), so a stack must choose a mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from facts.capacity import (
    CLASS_IDLE_SECONDS,
    FLEX_START_MAX_SECONDS,
    FLEX_START_MIN_SECONDS,
    FLEX_START_WAIT_SECONDS,
    FULL_QUOTA_IDLE_SECONDS,
    IDLE_SECONDS,
    PROVISIONING_MINUTES,
    RECYCLE_LEAD_SECONDS,
)
from facts.machines import DRIVER_VERSION, Machine
from settings.sections.section import Name, ProjectId, Section

_GKE = "cloud.google.com"
GPU_TOLERATION: Mapping[str, str] = {
    "key": "nvidia.com/gpu",
    "operator": "Equal",
    "value": "present",
    "effect": "NoSchedule",
}
SPOT_TOLERATION: Mapping[str, str] = {
    "key": f"{_GKE}/gke-spot",
    "operator": "Equal",
    "value": "true",
    "effect": "NoSchedule",
}


class _Mode(Section):
    usd_per_node_hour: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Your price of one node, USD an hour. Default: the published price of this mode in the stack's region (`fleet prices`); without
    one, nodes have no price. For a ComputeClass with a reservation: the reservation's, and of priorities without a published price."""


class OnDemand(_Mode):
    """Nodes at the list price, as available in the zone. Not every machine type is sold on demand."""

    mode: Literal["on-demand"]


class Spot(_Mode):
    """Spot nodes: cheapest, reclaimed within 30 seconds of a notice, not guaranteed to be available."""

    mode: Literal["spot"]


class FlexStart(_Mode):
    """Nodes that start when capacity is available and end after the run duration, at most seven days."""

    mode: Literal["flex-start"]
    run_duration_seconds: Annotated[int, Field(ge=FLEX_START_MIN_SECONDS, le=FLEX_START_MAX_SECONDS)]
    """Lifetime of a node in seconds, 600 to 604800 (7 days)."""


class Calendar(_Mode):
    """Nodes for a window of days that was bought in advance."""

    mode: Literal["calendar"]
    reservation: Name
    """Name of the window's reservation, with specificReservationRequired, in the zone of this stack."""


class Reservation(_Mode):
    """Nodes of a named reservation, which is billed whether used or not."""

    mode: Literal["reservation"]
    name: Name
    """Name of an existing reservation with specificReservationRequired, in the zone of this stack."""
    project: ProjectId | None = None
    """Project that owns a shared reservation. Default: the stack's project."""
    nodes: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Machines of the reservation, all billed, used or not. Default: as many as server.replicas need."""
    commitment: Literal["none", "cud-1y", "cud-3y"] = "none"
    """Committed use discount for these nodes. It is a price, not capacity."""


class ClassReservation(Section):
    """First priority: a reservation, used before any other capacity."""

    name: Name
    """Name of an existing specific reservation."""
    project: ProjectId | None = None
    """Project that owns a shared reservation. Default: the stack's project."""
    nodes: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Machines of the reservation, which are paid whether they run or not. Default: unknown, and only those that run are counted."""


class ComputeClassMode(_Mode):
    """A custom ComputeClass that tries a reservation, then Spot, then flex-start, in that order."""

    mode: Literal["compute-class"]
    reservation: ClassReservation | None = None
    """First priority. Default: none; the ComputeClass starts with Spot."""
    flex_start_seconds: Annotated[int, Field(ge=FLEX_START_MIN_SECONDS, le=FLEX_START_MAX_SECONDS)] | None = (
        FLEX_START_MAX_SECONDS
    )
    """Run duration of the flex-start priority in seconds; null removes the priority."""
    spot: bool = True
    """Use Spot, before flex-start."""

    @property
    def is_recycled(self) -> bool:
        """Whether flex-start nodes live long enough to be replaced ahead of their end."""
        return self.flex_start_seconds is not None and self.flex_start_seconds > 2 * RECYCLE_LEAD_SECONDS

    @property
    def has_unsized_reservation(self) -> bool:
        """Whether a reservation is paid of which no key says how many nodes it holds."""
        return self.reservation is not None and self.reservation.nodes is None


AnyMode = OnDemand | Spot | FlexStart | Calendar | Reservation | ComputeClassMode
Capacity = Annotated[AnyMode, Field(discriminator="mode")]
"""The six provisioning modes, by `mode`."""


def has_flex_start(capacity: AnyMode) -> bool:
    """Whether a node may be waited for at flex-start, `FLEX_START_WAIT_SECONDS` at most."""
    return isinstance(capacity, FlexStart) or (
        isinstance(capacity, ComputeClassMode) and capacity.flex_start_seconds is not None
    )


PriceKey = Literal["on-demand", "spot", "cud-1y", "cud-3y", "flex-start", "calendar", "reservation", "compute-class"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Scheduling of pods that follows from machine type and capacity mode."""

    machine: Machine
    gpus: int
    """GPUs of one pod; pods share a machine with more GPUs."""
    local_ssd: bool
    """Whether pods request optional local SSDs."""
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    idle_seconds: int
    """Time until GKE removes a node without pods."""
    provisioning_minutes: int
    """Minutes to wait for a node."""
    interruptible: bool
    """Whether Google may reclaim a node at any time, which a disruption budget does not prevent."""
    price_key: PriceKey
    """Key of the node's price in facts/data/prices.yaml."""
    zones: tuple[str, ...] = ()
    """Zones with a weights volume; replicas are spread over them."""


def compute_class_name(namespace: str, machine: Machine) -> str:
    """Name of the ComputeClass for `namespace`, e.g. "b200-vllm-dev". ComputeClasses are cluster-wide, and their names
    must not start with `gke` or `autopilot`.
    """
    return f"{machine.accelerator.removeprefix('nvidia-')}-{namespace}"


def placement(
    capacity: AnyMode,
    namespace: str,
    zones: tuple[str, ...] = (),
    *,
    machine: Machine,
    gpus: int | None = None,
    local_ssd: bool = False,
    full_quota: bool = False,
) -> Placement:
    """Selectors, tolerations and price for pods of `namespace`, from machine type and capacity mode.

    `machine`: `facts.machines.find("g2-standard-12")`; without a default, because its GPUs are the bill. `gpus`: default all of the
    machine's. If several machine types have the same labels, the pod's requests decide which one GKE creates. `full_quota`: whether the
    namespace's GPU quota has no room for a replacement pod until the old one is gone.
    """
    gpus = gpus or machine.gpus
    selector: dict[str, str] = {
        f"{_GKE}/gke-accelerator": machine.accelerator,
        f"{_GKE}/gke-gpu-driver-version": DRIVER_VERSION,
    }
    if gpus < machine.gpus:
        # Without it Autopilot creates a machine with the pod's number of GPUs. Source: GKE docs, "Deploy GPU workloads in Autopilot".
        selector[f"{_GKE}/gke-accelerator-count"] = str(machine.gpus)
    if local_ssd:
        selector[f"{_GKE}/gke-ephemeral-storage-local-ssd"] = "true"
    if machine.arch != "amd64":
        selector["kubernetes.io/arch"] = machine.arch
    tolerations: tuple[Mapping[str, Any], ...] = (GPU_TOLERATION,)
    interruptible = False
    idle_seconds = IDLE_SECONDS
    key: PriceKey
    match capacity:
        case OnDemand():
            key = "on-demand"
        case Spot():
            selector[f"{_GKE}/gke-spot"] = "true"
            tolerations += (SPOT_TOLERATION,)
            interruptible, key = True, "spot"
        case FlexStart():
            selector[f"{_GKE}/gke-flex-start"] = "true"
            selector[f"{_GKE}/gke-max-run-duration-seconds"] = str(capacity.run_duration_seconds)
            key = "flex-start"
        case Calendar():
            selector[f"{_GKE}/reservation-name"] = capacity.reservation
            selector[f"{_GKE}/reservation-affinity"] = "specific"
            key = "calendar"
        case Reservation():
            selector[f"{_GKE}/reservation-name"] = capacity.name
            selector[f"{_GKE}/reservation-affinity"] = "specific"
            if capacity.project is not None:
                selector[f"{_GKE}/reservation-project"] = capacity.project
            key = "reservation" if capacity.commitment == "none" else capacity.commitment
        case ComputeClassMode():
            # All other selectors belong in the ComputeClass: a contradiction makes the pod unschedulable.
            key = "compute-class"
            selector = {f"{_GKE}/compute-class": compute_class_name(namespace, machine)}
            idle_seconds = FULL_QUOTA_IDLE_SECONDS if full_quota else CLASS_IDLE_SECONDS
            if capacity.spot:
                # Nodes that GKE creates for a ComputeClass have no Spot taint (cluster autoscaler, injection.go); others may.
                tolerations += (SPOT_TOLERATION,)
                interruptible = True
    return Placement(
        machine=machine,
        gpus=gpus,
        local_ssd=local_ssd,
        node_selector=selector,
        tolerations=tolerations,
        idle_seconds=idle_seconds,
        provisioning_minutes=PROVISIONING_MINUTES + has_flex_start(capacity) * FLEX_START_WAIT_SECONDS // 60,
        interruptible=interruptible,
        price_key=key,
        zones=zones,
    )
