"""What a person is told of a pod without a machine: GKE's own words, which are few, and beside them what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from facts import machines, quotas
from fleet.rehearse.api import Manifest
from fleet.rehearse.simulation.stock import Mode, Refusal, ReservationStock

SOURCE: Final = "cluster-autoscaler"
MESSAGE_LENGTH: Final = 250
"""Longest event message of a failed scale-up. Source: GKE cluster autoscaler, failed scale-up events."""

_FAILED: Final = (
    "Node scale up in zones {zone} associated with this pod failed: {what}. Pod is at risk of not being scheduled."
)
_NOT_TRIGGERED: Final = "pod didn't trigger scale-up: {what}"
# Source of both, and of every code and short text below: GKE cluster autoscaler, failed scale-up events and visibility
# message ids; upstream autoscaler for the second.


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a pod has no machine."""

    code: str
    """Id of the entry in the log `container.googleapis.com/cluster-autoscaler-visibility`: on GKE the only precise word."""
    event: Literal["FailedScaleUp", "NotTriggerScaleUp", ""]
    """Reason of the event that GKE puts on the pod; "" where it puts none of its own."""
    shown: str
    """What GKE shows on the pod, beside its status Pending."""
    message: str
    """The same in plain words, by the rehearsal."""
    fix: str
    """What a person can do."""


def refused(
    reason: Refusal,
    *,
    mode: Mode,
    machine: str,
    zone: str,
    name: str = "",
    reservation: ReservationStock | None = None,
) -> Trouble:
    """The trouble of a machine that Google does not give."""
    if mode == "reservation":
        return _reservation_trouble(reason, name, zone, reservation)
    found = machines.MACHINES.get(machine)
    if found is None:
        return _out_of_resources(
            zone, f"Google has no more {machine} machines in {zone} now.", "Wait, or name another machine family."
        )
    way = {"spot": "as Spot", "flex-start": "by flex-start"}.get(mode, "on demand")
    if reason == "not sold":
        return _out_of_resources(
            zone,
            f"{machine} cannot be had {way}, and the pod names no other way.",
            f"Set capacity.mode to one of {', '.join(sorted(found.ways))}.",
        )
    if reason == "quota":
        quota = quotas.gpus(found.gpu, spot=mode != "on-demand")
        return _failure(
            "quota.exceeded",
            zone,
            "GCE quota exceeded",
            f"The project's quota of {quota.title} ({quota.ids[0]}) has no room for one more {machine}.",
            "Have it raised; `fleet doctor --for up --live` tells what is granted, and the request's text.",
        )
    return _out_of_resources(
        zone,
        f"Google has no more {machine} {way} in {zone} now.",
        "Nothing is wrong with the stack: the pod starts by itself when a machine is free. To depend less on it, add a rung "
        "(capacity.mode: ladder), another zone, or a reservation.",
    )


def _reservation_trouble(reason: Refusal, name: str, zone: str, there: ReservationStock | None) -> Trouble:
    named = f"Reservation {name}"
    match reason:
        case "not active":
            return _failure(
                "reservation.not.ready",
                zone,
                f"Reservation not ready: {name}",
                f"{named} exists but is not active: its window has not begun, or is over.",
                "Wait for the window; until then nothing runs and the pods stay Pending. Its times are in the request "
                "(gcloud compute future-reservations describe).",
            )
        case "full":
            nodes = there.nodes if there else 0
            return _failure(
                "reservation.capacity.exceeded",
                zone,
                f"Reservation capacity exceeded: {name}",
                f"{named} holds {nodes} machines, and all of them are in use.",
                f"Run at most {nodes} replicas on it, enlarge it, or add a rung that can hold the rest (capacity.mode: ladder).",
            )
        case "other zone":
            where = there.zone if there else "another zone"
            return _no_scale_up(
                "no.scale.up.nap.pod.unusable.reservation",
                "1 unusable reservation",
                f"{named} is in {where}, the pod asks for {zone}; the autoscaler then ignores the reservation.",
                f"Set zones to {where}: weights and machines have to be in the same zone.",
            )
        case _:
            return _failure(
                "reservation.not.found",
                zone,
                f"Reservation not found or incorrectly shared: {name}",
                f"There is no reservation {name} that this project may use.",
                "Check the name, and with a shared one its project (capacity.project) and that it is shared with this project.",
            )


def no_machine(code: str, shown: str, message: str, fix: str) -> Trouble:
    """A pod that no machine of the catalogue suits, whatever the stock."""
    return _no_scale_up(f"no.scale.up.{code}", shown, message, fix)


def unbound_volume(said: str) -> Trouble:
    """A pod that waits for a claim, not for a machine; the words are the scheduler's."""
    return Trouble(
        code="no.scale.up.nap.pod.zonal.failing.predicates",
        event="",
        shown=said,
        message="The pod waits for a volume: its claim is missing or not bound, so no machine is asked for.",
        fix="Look at the claim (kubectl describe pvc): its class, its snapshot, and whether a provisioner answers.",
    )


def not_placed(said: str) -> Trouble:
    """A pod for which there is room, as far as the rehearsal can see, and which the scheduler does not place."""
    return Trouble(
        code="no.scale.up.mig.failing.predicate",
        event="",
        shown=said,
        message="There is a machine with room for this pod, and the scheduler still does not place it.",
        fix="Read the scheduler's words above: they name the rule that keeps the pod off each machine.",
    )


def event_manifest(pod: Manifest, *, reason: str, message: str, warning: bool, number: int) -> Manifest:
    """An event on a pod as the autoscaler writes it."""
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
