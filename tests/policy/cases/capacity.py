"""Cases of how GPU nodes are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    POD,
    Edit,
    Rule,
    broken,
    drop,
    google,
    new,
    put,
    sound,
)

_GKE = "cloud.google.com"
_B200 = {f"{_GKE}/gke-accelerator": "nvidia-b200"}
_L4 = {f"{_GKE}/gke-accelerator": "nvidia-l4"}
_H100 = {f"{_GKE}/gke-accelerator": "nvidia-h100-80gb"}
_EIGHT = {f"{_GKE}/gke-accelerator-count": "8"}
_FLEX = {**_B200, f"{_GKE}/gke-flex-start": "true", f"{_GKE}/gke-max-run-duration-seconds": "86400"}
_CLASS = {f"{_GKE}/compute-class": "b200"}
_A4 = {"node.kubernetes.io/instance-type": "a4-highgpu-8g"}
_SELECTOR = f"{POD}.nodeSelector"


def _on(selector: Mapping[str, str]) -> Edit:
    return put(DEPLOYMENT, _SELECTOR, value=dict(selector))


def _select(key: str, value: str) -> Edit:
    return put(DEPLOYMENT, _SELECTOR, f"{_GKE}/{key}", value=value)


def _gpus(count: int) -> Edit:
    return put(DEPLOYMENT, f"{CONTAINER}.resources", value={"limits": {"nvidia.com/gpu": str(count)}})


def _grace(seconds: int) -> Edit:
    return put(DEPLOYMENT, f"{POD}.terminationGracePeriodSeconds", value=seconds)


def _lasting(seconds: str, selector: Mapping[str, str] = _FLEX) -> Edit:
    return _on({**selector, f"{_GKE}/gke-max-run-duration-seconds": seconds})


def _priority(**more: Any) -> dict[str, Any]:
    return {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}, **more}


def _class(*priorities: dict[str, Any], name: str = "b200", **spec: Any) -> Edit:
    """A class as somebody would write it manually."""
    made = {
        "apiVersion": f"{_GKE}/v1",
        "kind": "ComputeClass",
        "metadata": {"name": name},
        "spec": {
            "priorities": list(priorities or (_priority(spot=True),)),
            "whenUnsatisfiable": "DoNotScaleUp",
            **spec,
        },
    }
    return new("class-by-hand", f"kubernetes:{_GKE}/v1:ComputeClass", made)


_NAMED = {"affinity": "Specific", "specific": [{"name": "r", "zones": ["europe-west4-b"]}]}
_ZONES = {"zones": ["europe-west4-b"]}
_FLEX_PRIORITY = {"flexStart": {"enabled": True}}

_LIMITS = Rule("flex-start-limits")
_UNSOUND = Rule("compute-class-unsound")

CASES = (
    broken(
        "partial-node",
        "four GPUs, chosen by affinity",
        put(DEPLOYMENT, _SELECTOR, value={f"{_GKE}/gke-spot": "true"}),
        put(
            DEPLOYMENT,
            f"{POD}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
            value=[
                {"matchExpressions": [{"key": f"{_GKE}/gke-accelerator", "operator": "In", "values": ["nvidia-b200"]}]}
            ],
        ),
        _gpus(4),
    ),
    broken("partial-node", "seven GPUs", _gpus(7)),
    broken("partial-node", "two nodes' GPUs", _gpus(16)),
    broken("partial-node", "three L4", _on(_L4), _gpus(3)),
    sound("partial-node", "two of a shared machine's eight", _on({**_H100, **_EIGHT}), _gpus(2)),
    broken(
        "no-capacity-selector", "the Spot selector lost", drop(DEPLOYMENT, _SELECTOR, f"{_GKE}/gke-spot"), stack="spot"
    ),
    broken("no-capacity-selector", "a machine type alone", _on(_A4), stack="cud"),
    broken("no-capacity-selector", "a built-in class", _on({**_B200, f"{_GKE}/compute-class": "Accelerator"})),
    broken("no-capacity-selector", "GPUs of no type", drop(DEPLOYMENT, _SELECTOR, f"{_GKE}/gke-accelerator")),
    sound("no-capacity-selector", "a class of one's own", _on(_CLASS)),
    broken("no-capacity-selector", "one H100, which is not sold on demand", _on(_H100), _gpus(1)),
    broken(
        "reservation-not-specific",
        "no affinity",
        drop(DEPLOYMENT, _SELECTOR, f"{_GKE}/reservation-affinity"),
        stack="cud",
    ),
    broken("reservation-not-specific", "no name", drop(DEPLOYMENT, _SELECTOR, f"{_GKE}/reservation-name"), stack="cud"),
    broken("reservation-not-specific", "any, and no name", _select("reservation-affinity", "any")),
    broken("reservation-not-specific", "machines for anybody", google("compute/Reservation", name="b200")),
    sound("reservation-not-specific", "machines kept", google("compute/Reservation", specificReservationRequired=True)),
    _LIMITS.broken("one minute", _lasting("60", {**_B200, f"{_GKE}/gke-provisioning": "flex-start"}), stack="spot"),
    *(_LIMITS.broken(seconds, _lasting(seconds)) for seconds in ("599", "604801", "soon", "600.5")),
    _LIMITS.broken("a long priority", _class(_priority(**_FLEX_PRIORITY, maxRunDurationSeconds=604801))),
    *(_LIMITS.sound(seconds, _lasting(seconds)) for seconds in ("600", "604800")),
    _LIMITS.sound("a priority of a week", _class(_priority(**_FLEX_PRIORITY, maxRunDurationSeconds=604800))),
    broken(
        "spot-grace-above-budget",
        "the default grace, above a limit of the stack's own",
        drop(DEPLOYMENT, f"{POD}.terminationGracePeriodSeconds"),
        stack="gateway",
        mostSeconds=25.0,
    ),
    broken("spot-grace-above-budget", "a second too long", _grace(601)),
    sound("spot-grace-above-budget", "as long as a notice leaves", _grace(15)),
    sound("spot-grace-above-budget", "a limit of the stack's own", _grace(601), mostSeconds=601.0),
    _UNSOUND.broken(
        "a machine with other GPUs",
        _class({"machineType": "g2-standard-24", "gpu": {"type": "nvidia-l4", "count": 4}, "spot": True}),
    ),
    _UNSOUND.broken("a reserved name", _class(name="gke-b200")),
    _UNSOUND.broken("nothing said of no machine", _class(whenUnsatisfiable=None)),
    _UNSOUND.broken("zones beside a reservation", _class(_priority(reservations=_NAMED, location=_ZONES))),
    _UNSOUND.broken("no reservation named", _class(_priority(reservations={"affinity": "Specific"}))),
    _UNSOUND.broken("a priority of two ways", _class(_priority(**_FLEX_PRIORITY, spot=True))),
    _UNSOUND.sound(
        "three ways in turn",
        _class(_priority(reservations=_NAMED), _priority(**_FLEX_PRIORITY, location=_ZONES), _priority(spot=True)),
    ),
    _UNSOUND.sound("CPUs of any machine", _class({"machineFamily": "c4"}, whenUnsatisfiable="ScaleUpAnyway")),
)
