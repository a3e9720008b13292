"""Mutants of how GPU nodes are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.policy.mutant import (
    CONTAINER,
    DEPLOYMENT,
    POD,
    Patch,
    append,
    arguments,
    drop,
    flag,
    new,
    of_program,
    of_resource,
    put,
    result,
    set_at,
)

_GKE = "cloud.google.com"
_ACCELERATOR = {f"{_GKE}/gke-accelerator": "nvidia-b200"}
_RESERVATION = {f"{_GKE}/reservation-name": "b200-production", f"{_GKE}/reservation-affinity": "specific"}
_SELECTOR = f"{POD}.nodeSelector"
LADDER = {"capacity": {"mode": "ladder", "reservation": {"name": "b200"}}}
_DRAFT = {
    "capacity": {
        "mode": "calendar",
        "reservation": "window",
        "create": {"startTime": "2027-01-04T06:00:00Z", "durationDays": 7, "nodes": 1},
    }
}
_CLASS_TYPE = "kubernetes:cloud.google.com/v1:ComputeClass"


def _selecting(selector: Mapping[str, str] | None = None, **changes: Any) -> Patch:
    """Server pods placed in another way than the capacity mode says."""
    chosen = {} if selector is None else {"node_selector": selector}
    return result("settings.stack.placement", lambda made: replace(made, **chosen, **changes))


def _compute_class(count: int = 8, **spec: Any) -> dict[str, Any]:
    """A class as somebody would write it by hand."""
    rung = {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": count}, "spot": True}
    return {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": "b200"},
        "spec": {"priorities": [rung], "whenUnsatisfiable": "DoNotScaleUp", **spec},
    }


def _four_gpus(made: dict[str, dict[str, str]]) -> None:
    for amounts in made.values():
        amounts["nvidia.com/gpu"] = "4"


MUTANTS = (
    of_program("partial-node", "four GPUs a pod", result("workloads.server.pod.resources", _four_gpus)),
    of_resource(
        "partial-node",
        "one engine on one GPU",
        put(DEPLOYMENT, f"{CONTAINER}.resources", value={"limits": {"nvidia.com/gpu": "1"}}),
        flag(DEPLOYMENT, "--data-parallel-size=1"),
        stack="cud",
    ),
    of_resource(
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
        put(DEPLOYMENT, f"{CONTAINER}.resources", value={"limits": {"nvidia.com/gpu": "4"}}),
    ),
    of_program("no-capacity-selector", "B200, and no way to get one", _selecting(_ACCELERATOR), stack="guest"),
    of_resource(
        "no-capacity-selector", "the Spot selector lost", drop(DEPLOYMENT, _SELECTOR, f"{_GKE}/gke-spot"), stack="spot"
    ),
    of_resource(
        "no-capacity-selector",
        "a machine type alone",
        put(DEPLOYMENT, _SELECTOR, value={"node.kubernetes.io/instance-type": "a4-highgpu-8g"}),
        stack="cud",
    ),
    of_program(
        "contradictory-selectors",
        "Spot of a reservation",
        _selecting({**_ACCELERATOR, f"{_GKE}/gke-spot": "true", **_RESERVATION}),
        stack="guest",
    ),
    of_resource(
        "contradictory-selectors",
        "flex-start of a reservation",
        put(DEPLOYMENT, _SELECTOR, f"{_GKE}/gke-flex-start", value="true"),
        stack="cud",
    ),
    of_resource(
        "contradictory-selectors",
        "a class and Spot beside it",
        put(DEPLOYMENT, _SELECTOR, f"{_GKE}/compute-class", value="b200"),
        stack="guest",
    ),
    of_program(
        "reservation-not-specific",
        "a reservation named without its affinity",
        _selecting({**_ACCELERATOR, f"{_GKE}/reservation-name": "b200-production"}),
        stack="cud",
    ),
    of_program(
        "reservation-not-specific",
        "an order that anybody's machines may use",
        arguments("infra.capacity.compute.FutureReservation", lambda given: given.pop("specific_reservation_required")),
        settings=_DRAFT,
    ),
    of_resource(
        "reservation-not-specific",
        "any reservation will do",
        put(DEPLOYMENT, _SELECTOR, f"{_GKE}/reservation-affinity", value="any"),
        stack="cud",
    ),
    of_program(
        "flex-start-limits",
        "two weeks",
        _selecting(
            {
                **_ACCELERATOR,
                f"{_GKE}/gke-flex-start": "true",
                f"{_GKE}/gke-max-run-duration-seconds": "1209600",
            }
        ),
        settings={"capacity": {"mode": "flex-start", "runDurationSeconds": 604_800}},
        stack="guest",
    ),
    of_program(
        "flex-start-limits",
        "a rung of one minute",
        result(
            "workloads.capacity_ladder.compute_class_spec",
            lambda spec: set_at(spec, "priorities.1.maxRunDurationSeconds", value=60),
        ),
        settings=LADDER,
        stack="guest",
    ),
    of_resource(
        "flex-start-limits",
        "one minute",
        put(
            DEPLOYMENT,
            _SELECTOR,
            value={
                **_ACCELERATOR,
                f"{_GKE}/gke-provisioning": "flex-start",
                f"{_GKE}/gke-max-run-duration-seconds": "60",
            },
        ),
        stack="spot",
    ),
    of_program("spot-grace-above-budget", "ten minutes of grace on Spot", _selecting(grace_seconds=600), stack="guest"),
    of_resource(
        "spot-grace-above-budget",
        "the default grace on Spot",
        drop(DEPLOYMENT, f"{POD}.terminationGracePeriodSeconds"),
        stack="gateway",
    ),
    of_program(
        "compute-class-unsound",
        "any machine where no A4 is to be had",
        result(
            "workloads.capacity_ladder.compute_class_spec",
            lambda spec: spec.update(whenUnsatisfiable="ScaleUpAnyway"),
        ),
        settings=LADDER,
        stack="guest",
    ),
    of_resource(
        "compute-class-unsound",
        "a class of half nodes",
        new("class-by-hand", _CLASS_TYPE, _compute_class(count=4)),
    ),
    of_program(
        "compute-class-mismatch",
        "ten minutes of grace on a ladder with a Spot rung",
        _selecting(grace_seconds=600),
        settings=LADDER,
    ),
    of_resource(
        "compute-class-mismatch",
        "four GPUs on nodes of eight",
        new("class-by-hand", _CLASS_TYPE, _compute_class()),
        put(DEPLOYMENT, _SELECTOR, value={f"{_GKE}/compute-class": "b200"}),
        put(DEPLOYMENT, f"{CONTAINER}.resources", value={"limits": {"nvidia.com/gpu": "4"}}),
        append(DEPLOYMENT, f"{POD}.tolerations", {"key": f"{_GKE}/compute-class", "operator": "Exists"}),
        stack="spot",
    ),
)
