"""Capacity as one typed value, and everything that follows from it: selectors, tolerations, grace, rollout, price.

Many machines cannot be had on demand, the article's A4 among them ("A note on GPU provisioning"), so every stack names a way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from facts.capacity import FLEX_START_MAX_SECONDS, FLEX_START_MIN_SECONDS, SPOT_GRACE_SECONDS, STEADY_GRACE_SECONDS
from facts.machines import DEFAULT_MACHINE, DRIVER_VERSION, Machine
from settings.sections.section import Moment, Name, ProjectId, Section

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
    usd_per_node_hour: Annotated[float, Field(gt=0)] | None = None
    """Your own price of one node, USD an hour. Default: the price published for this mode in the stack's region
    (`fleet prices`); where none is, nodes stay unpriced until you write one here."""


class OnDemand(_Mode):
    """Nodes at the list price, as long as they are wanted, where the zone has any. Not every machine is sold so."""

    mode: Literal["on-demand"]


class Spot(_Mode):
    """Preemptible nodes: cheapest, gone within 30 seconds of a notice, no guarantee of being there at all."""

    mode: Literal["spot"]
    grace_seconds: Annotated[int, Field(ge=0, le=25)] = SPOT_GRACE_SECONDS
    """Seconds between the stop signal and the kill. 15 is what a Spot notice leaves; above 25 nothing can use it."""


class FlexStart(_Mode):
    """Nodes that start when there is room and end after the run duration, seven days at most."""

    mode: Literal["flex-start"]
    run_duration_seconds: Annotated[int, Field(ge=FLEX_START_MIN_SECONDS, le=FLEX_START_MAX_SECONDS)]
    """How long a node may live, 600 to 604800 seconds (7 days)."""


class CalendarRequest(Section):
    """A FutureReservation in calendar mode. Once approved it can be neither changed nor cancelled: the whole window is paid."""

    start_time: Moment
    """First moment of the window, RFC 3339 in UTC, e.g. "2027-01-04T06:00:00Z"."""
    duration_days: Annotated[int, Field(ge=1, le=90)]
    """Length of the window, 1 to 90 days. Source: AI Hypercomputer, consumption options (calendar mode)."""
    nodes: Annotated[int, Field(ge=1, le=80)]
    """Machines to reserve, 1 to 80. Source: the same table."""
    total_usd: Annotated[float, Field(gt=0)] | None = None
    """The whole window's price in USD, typed by hand: nodes x days x 24 x usdPerNodeHour. The request is only
    submitted when this is here and right; without it the reservation stays a draft that costs nothing."""


class Calendar(_Mode):
    """A block of nodes for a window of days, by a FutureReservation that exists or that this stack requests."""

    mode: Literal["calendar"]
    reservation: Name
    """Name of the reservation that serves the window: an existing one, or the one that `create` will make."""
    create: CalendarRequest | None = None
    """Request the window from this stack. Leave out to use a reservation that somebody else has requested."""


class Reservation(_Mode):
    """Nodes of a named reservation: capacity that is there whether used or not."""

    mode: Literal["reservation"]
    name: Name
    """Name of an existing reservation with specificReservationRequired, in the zone of this stack."""
    project: ProjectId | None = None
    """The project that owns the reservation, when it is shared with this one. Default: the stack's project."""
    nodes: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Machines that the reservation holds; all are paid for, used or not. Default: those that server.replicas need."""
    blocks: Annotated[tuple[Name, ...], Field(max_length=1)] = ()
    """The block of a dense reservation to stay within: pods ask for it by a label, whose value is one name. Default: any."""
    commitment: Literal["none", "cud-1y", "cud-3y"] = "none"
    """Commitment that prices these nodes. A commitment is a price, not capacity: it never stands alone."""


class LadderReservation(Section):
    """The first rung: a reservation to drain before anything else is asked."""

    name: Name
    """Name of an existing specific reservation."""
    project: ProjectId | None = None
    """Owner of the reservation when it is shared. Default: the stack's project."""


class Ladder(_Mode):
    """A custom ComputeClass that tries a reservation, then flex-start, then Spot, in that order."""

    mode: Literal["ladder"]
    reservation: LadderReservation | None = None
    """First rung. Leave out to begin at flex-start."""
    flex_start_seconds: Annotated[int, Field(ge=FLEX_START_MIN_SECONDS, le=FLEX_START_MAX_SECONDS)] | None = (
        FLEX_START_MAX_SECONDS
    )
    """Run duration of the flex-start rung in seconds; null leaves the rung out."""
    spot: bool = True
    """Whether Spot is the last rung."""


AnyMode = OnDemand | Spot | FlexStart | Calendar | Reservation | Ladder
Capacity = Annotated[AnyMode, Field(discriminator="mode")]
"""The six ways to get nodes; `mode` says which."""


def window_total_usd(nodes: int, days: int, usd_per_node_hour: float) -> float:
    """What a whole calendar window costs in USD, used or not: every node, every hour, rounded to the cent."""
    return round(nodes * days * 24 * usd_per_node_hour, 2)


PriceKey = Literal["on-demand", "spot", "cud-1y", "cud-3y", "flex-start", "calendar", "reservation", "ladder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What machine and capacity mode mean for the pods that run on it."""

    machine: Machine
    gpus: int
    """GPUs of one pod; below all of the machine's, pods share it."""
    local_ssd: bool
    """Whether a machine that has local SSDs only where asked is asked for them."""
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    grace_seconds: int
    """terminationGracePeriodSeconds of a server pod."""
    pre_stop_seconds: int
    """Least sleep before the stop signal, so that endpoints are gone before streams end; the server may sleep longer."""
    interruptible: bool
    """True where Google may take a node back at any moment: a disruption budget does not protect there."""
    price_key: PriceKey
    """Key of the node's price in facts/data/prices.yaml."""
    zones: tuple[str, ...] = ()
    """Zones that have the weights; replicas spread over them where there are several."""


def ladder_class(namespace: str, machine: Machine) -> str:
    """Name of the ComputeClass that places the server pods of `namespace` on a ladder, e.g. "b200-ladder-vllm-dev": classes belong to
    the whole cluster, and begin with neither `gke` nor `autopilot`.
    """
    return f"{machine.accelerator.removeprefix('nvidia-')}-ladder-{namespace}"


def placement(
    capacity: AnyMode,
    namespace: str,
    zones: tuple[str, ...] = (),
    *,
    machine: Machine | None = None,
    gpus: int | None = None,
    local_ssd: bool = False,
) -> Placement:
    """The one place where machine and capacity mode become selectors, tolerations, grace and price, for pods of `namespace`.

    Default: the article's machine, all its GPUs. Which of several machines with one label GKE makes follows from the pod's requests.
    """
    machine = machine or DEFAULT_MACHINE
    gpus = gpus or machine.gpus
    selector: dict[str, str] = {
        f"{_GKE}/gke-accelerator": machine.accelerator,
        f"{_GKE}/gke-gpu-driver-version": DRIVER_VERSION,
    }
    if gpus < machine.gpus:
        # Without it Autopilot makes a machine of the pod's own number of GPUs. Source: GKE docs, "Deploy GPU workloads in Autopilot".
        selector[f"{_GKE}/gke-accelerator-count"] = str(machine.gpus)
    if local_ssd:
        selector[f"{_GKE}/gke-ephemeral-storage-local-ssd"] = "true"
    if machine.arch != "amd64":
        selector["kubernetes.io/arch"] = machine.arch
    tolerations: tuple[Mapping[str, Any], ...] = (GPU_TOLERATION,)
    grace, interruptible = STEADY_GRACE_SECONDS, False
    key: PriceKey
    match capacity:
        case OnDemand():
            key = "on-demand"
        case Spot():
            selector[f"{_GKE}/gke-spot"] = "true"
            tolerations += (SPOT_TOLERATION,)
            grace, interruptible, key = capacity.grace_seconds, True, "spot"
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
            if capacity.blocks:
                selector[f"{_GKE}/reservation-blocks"] = capacity.blocks[0]
            key = "reservation" if capacity.commitment == "none" else capacity.commitment
        case Ladder():
            # Every other selector belongs inside the class: one that contradicts it makes the pod unschedulable.
            key = "ladder"
            selector = {f"{_GKE}/compute-class": ladder_class(namespace, machine)}
            if capacity.spot:
                # Nodes that GKE makes for a class have no Spot taint (cluster autoscaler, injection.go); others may.
                tolerations += (SPOT_TOLERATION,)
                grace, interruptible = SPOT_GRACE_SECONDS, True
    return Placement(
        machine=machine,
        gpus=gpus,
        local_ssd=local_ssd,
        node_selector=selector,
        tolerations=tolerations,
        grace_seconds=grace,
        # Spot leaves 15 s for everything: 5 s for endpoints to go, the rest for streams to end.
        pre_stop_seconds=5 if interruptible else 30,
        interruptible=interruptible,
        price_key=key,
        zones=zones,
    )
