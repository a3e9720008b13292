"""Why a pod has no node: GKE's event messages, and explanations of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from facts import machines, quotas
from lab.cloud.machines import Machine
from lab.cloud.stock import Mode, Refusal, ReservationStock
from lab.control_plane.api import Manifest

SOURCE: Final = "cluster-autoscaler"
MESSAGE_LENGTH: Final = 250
"""Longest event message of a failed scale-up. Source: GKE cluster autoscaler, failed scale-up events."""

_FAILED: Final = (
    "Node scale up in zones {zone} associated with this pod failed: {what}. Pod is at risk of not being scheduled."
)
_NOT_TRIGGERED: Final = "pod didn't trigger scale-up: {what}"
# Source of both and of all codes and short texts below: GKE cluster autoscaler, failed scale-up events and visibility message
# ids; upstream autoscaler for the second.


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a pod has no node."""

    code: str
    """Message id in the log `container.googleapis.com/cluster-autoscaler-visibility`, GKE's only precise reason."""
    event: Literal["FailedScaleUp", "NotTriggerScaleUp", ""]
    """Reason of GKE's event on the pod; empty without an event."""
    shown: str
    """Message of GKE's event."""
    message: str
    """Explanation by the rehearsal."""
    fix: str


def refused(
    reason: Refusal,
    *,
    mode: Mode,
    machine: Machine,
    zone: str,
    name: str = "",
    reservation: ReservationStock | None = None,
) -> Trouble:
    """Why Google does not provide a node."""
    if mode == "reservation":
        return _reservation_trouble(reason, name, zone, reservation)
    if reason == "disk quota":
        return _failure(
            "quota.exceeded",
            zone,
            "GCE quota exceeded",
            f"The project's quota of {quotas.SSD_CAPACITY.title} ({quotas.SSD_CAPACITY.ids[0]}) does not allow another "
            f"{machine.name} with a boot disk of {machine.ssd_gib} GiB.",
            "Lower server.resources.ephemeralStorageGib, by which GKE sizes the disk, or request an increase; `fleet doctor --for up "
            "--live` prints the granted quota and the request's text.",
        )
    known = machines.MACHINES.get(machine.name)
    if known is None:
        return _out_of_resources(
            zone, f"{zone} has no {machine.name} capacity at the moment.", "Wait, or choose another machine family."
        )
    way = {"spot": "Spot", "flex-start": "flex-start"}.get(mode, "on-demand")
    if reason == "not sold":
        return _out_of_resources(
            zone,
            f"{machine.name} is not sold as {way}, the only mode that the pod selects.",
            f"Set capacity.mode to one of {', '.join(sorted(known.ways))}.",
        )
    if reason == "quota":
        quota = quotas.gpus(known.gpu, spot=mode != "on-demand")
        return _failure(
            "quota.exceeded",
            zone,
            "GCE quota exceeded",
            f"The project's quota of {quota.title} ({quota.ids[0]}) does not allow another {machine.name}.",
            "Request an increase; `fleet doctor --for up --live` prints the granted quota and the request's text.",
        )
    return _out_of_resources(
        zone,
        f"{zone} has no {way} capacity for {machine.name} at the moment.",
        "No action is needed: the pod starts when capacity is available. To depend less on it, use capacity.mode: compute-class, another "
        "zone, or a reservation.",
    )


def _reservation_trouble(reason: Refusal, name: str, zone: str, there: ReservationStock | None) -> Trouble:
    named = f"Reservation {name}"
    match reason:
        case "not active":
            return _failure(
                "reservation.not.ready",
                zone,
                f"Reservation not ready: {name}",
                f"{named} is not active: its window has not begun, or has ended.",
                "Wait for the window; the pods stay Pending until then. `gcloud compute future-reservations describe` shows its "
                "times.",
            )
        case "full":
            nodes = there.nodes if there else 0
            return _failure(
                "reservation.capacity.exceeded",
                zone,
                f"Reservation capacity exceeded: {name}",
                f"All {nodes} nodes of {named[:1].lower()}{named[1:]} are in use.",
                f"Run at most {nodes} replicas on it, enlarge it, or use capacity.mode: compute-class for the rest.",
            )
        case "other zone":
            where = there.zone if there else "another zone"
            return _no_scale_up(
                "no.scale.up.nap.pod.unusable.reservation",
                "1 unusable reservation",
                f"{named} is in {where}, but the pod requests {zone}; the autoscaler ignores the reservation.",
                f"Set zones to {where}: weights and nodes must be in the same zone.",
            )
        case _:
            return _failure(
                "reservation.not.found",
                zone,
                f"Reservation not found or incorrectly shared: {name}",
                f"Reservation {name} does not exist or is not shared with this project.",
                "Check the name; for a shared reservation also its project (capacity.project) and the projects it is shared with.",
            )


def no_machine(code: str, shown: str, message: str, fix: str) -> Trouble:
    """A pod for which no machine type fits, regardless of capacity."""
    return _no_scale_up(f"no.scale.up.{code}", shown, message, fix)


def unbound_volume(said: str) -> Trouble:
    """A pod that waits for a claim; `said` is the scheduler's message."""
    return Trouble(
        code="no.scale.up.nap.pod.zonal.failing.predicates",
        event="",
        shown=said,
        message="The pod waits for a volume: its claim is missing or not bound, so no node is requested.",
        fix="Check the claim (kubectl describe pvc): its class, its snapshot, and whether its provisioner works.",
    )


def not_placed(said: str) -> Trouble:
    """A pod that fits a node but is not scheduled."""
    return Trouble(
        code="no.scale.up.mig.failing.predicate",
        event="",
        shown=said,
        message="A node has room for this pod, but the scheduler does not place it there.",
        fix="Read the scheduler's message above: it names the rule that excludes each node.",
    )


def event_manifest(pod: Manifest, *, reason: str, message: str, warning: bool, number: int) -> Manifest:
    """An autoscaler event on a pod."""
    metadata, now = pod["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.autoscaler-{number:x}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "reason": reason,
        "message": message[:MESSAGE_LENGTH],
        "type": "Warning" if warning else "Normal",
        "source": {"component": SOURCE},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _failed(zone: str, what: str) -> str:
    return _FAILED.format(zone=zone, what=what)


def _failure(code: str, zone: str, what: str, message: str, fix: str) -> Trouble:
    return Trouble(
        code=f"scale.up.error.{code}",
        event="FailedScaleUp",
        shown=_failed(zone, what),
        message=message,
        fix=fix,
    )


def _out_of_resources(zone: str, message: str, fix: str) -> Trouble:
    return _failure("out.of.resources", zone, "GCE out of resources", message, fix)


def _no_scale_up(code: str, what: str, message: str, fix: str) -> Trouble:
    return Trouble(
        code=code,
        event="NotTriggerScaleUp",
        shown=_NOT_TRIGGERED.format(what=what),
        message=message,
        fix=fix,
    )
