from __future__ import annotations

from typing import Any

import pytest

from tests.policy.samples import RESERVED, SPOT, found, google, kubernetes, only, server

GKE = "cloud.google.com"
B200 = {f"{GKE}/gke-accelerator": "nvidia-b200"}
FLEX = {**B200, f"{GKE}/gke-flex-start": "true", f"{GKE}/gke-max-run-duration-seconds": "86400"}
CLASS = {f"{GKE}/compute-class": "b200-ladder-vllm"}


def on(selector: dict[str, str], **more: Any) -> Any:
    return server(selector=selector, **more)


def compute_class(*rungs: dict[str, Any], name: str = "b200-ladder-vllm", **spec: Any) -> Any:
    body = {"whenUnsatisfiable": "DoNotScaleUp", "priorities": list(rungs), **spec}
    return kubernetes("cloud.google.com/v1:ComputeClass", {"metadata": {"name": name}, "spec": body})


def rung(**more: Any) -> dict[str, Any]:
    return {"machineType": "a4-highgpu-8g", "gpu": {"type": "nvidia-b200", "count": 8}, **more}


@pytest.mark.parametrize("gpus", [1, 4, 7, 16])
def test_a_pod_that_does_not_take_the_whole_node_is_found(gpus: int) -> None:
    assert only("partial-node", server(gpus=gpus)).startswith(f"spec.template.spec asks for {gpus} B200\n")


def test_a_pod_with_the_whole_node_or_with_other_gpus_is_right() -> None:
    assert found("partial-node", server()) == []
    assert found("partial-node", server(gpus=1, selector={f"{GKE}/gke-accelerator": "nvidia-l4"})) == []
    assert found("partial-node", server(gpus=0)) == []


def test_the_machine_an_affinity_or_the_class_name_may_say_that_it_is_b200() -> None:
    assert only("partial-node", server(gpus=4, selector={"node.kubernetes.io/instance-type": "a4-highgpu-8g"}))
    assert only("partial-node", server(gpus=4, selector=CLASS))
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression(B200)]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert only("partial-node", server(gpus=4, selector={}, spec={"affinity": affinity}))


def expression(labels: dict[str, str]) -> dict[str, Any]:
    ((key, value),) = labels.items()
    return {"key": key, "operator": "In", "values": [value]}


def test_b200_without_a_way_to_get_it_is_found() -> None:
    message = only("no-capacity-selector", on(B200))
    assert "says in no way how to get them" in message
    assert "cannot be had on demand" in message


@pytest.mark.parametrize(
    "selector",
    [SPOT, FLEX, RESERVED, CLASS, {**B200, f"{GKE}/gke-provisioning": "spot"}, {f"{GKE}/gke-accelerator": "nvidia-l4"}],
)
def test_every_way_to_get_a_node_is_one(selector: dict[str, str]) -> None:
    assert found("no-capacity-selector", on(selector)) == []


def test_a_built_in_class_is_no_way_to_get_b200() -> None:
    assert only("no-capacity-selector", on({**B200, f"{GKE}/compute-class": "Accelerator"}))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({**FLEX, **RESERVED}, "asks for flex-start and for the reservation b200"),
        ({**FLEX, f"{GKE}/reservation-affinity": "any"}, "asks for flex-start and for the reservation any"),
        ({**FLEX, **SPOT}, "asks for flex-start and for Spot"),
        ({**SPOT, **RESERVED}, "asks for Spot and for the reservation b200"),
        ({**B200, f"{GKE}/gke-flex-start": "yes"}, "only true is known"),
        ({**FLEX, f"{GKE}/gke-provisioning": "standard"}, "gke-provisioning: standard"),
        ({**CLASS, **SPOT}, "names the ComputeClass b200-ladder-vllm and cloud.google.com/gke-spot"),
    ],
)
def test_two_ways_at_once_are_found(more: dict[str, str], said: str) -> None:
    assert any(said in message for message in found("contradictory-selectors", on(more)))


@pytest.mark.parametrize(
    "selector", [SPOT, FLEX, RESERVED, CLASS, {**FLEX, f"{GKE}/reservation-affinity": "none"}, B200]
)
def test_one_way_contradicts_nothing(selector: dict[str, str]) -> None:
    assert found("contradictory-selectors", on(selector)) == []


def test_a_flex_start_toleration_alone_is_found() -> None:
    toleration = {"tolerations": [{"key": f"{GKE}/gke-flex-start", "operator": "Exists"}]}
    assert "no selector asks for it" in only("contradictory-selectors", on(SPOT, spec=toleration))
    assert found("contradictory-selectors", on(FLEX, spec=toleration)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({f"{GKE}/reservation-affinity": ""}, "names the reservation b200 with the affinity left out"),
        ({f"{GKE}/reservation-affinity": "any"}, "with the affinity any"),
        ({f"{GKE}/reservation-name": ""}, "asks for a specific reservation and names none"),
        ({f"{GKE}/reservation-name": "", f"{GKE}/reservation-affinity": "any"}, "asks for the affinity any"),
    ],
)
def test_a_reservation_is_named_and_specific(change: dict[str, str], said: str) -> None:
    selector = {key: value for key, value in {**RESERVED, **change}.items() if value}
    assert said in only("reservation-not-specific", on(selector))


def test_a_specific_reservation_is_right() -> None:
    assert found("reservation-not-specific", on(RESERVED)) == []
    assert found("reservation-not-specific", on(SPOT)) == []


@pytest.mark.parametrize("type_", ["compute/reservation:Reservation", "compute/futureReservation:FutureReservation"])
def test_the_reservation_itself_requires_to_be_named(type_: str) -> None:
    assert only("reservation-not-specific", google(type_, {"name": "b200"}))
    assert only("reservation-not-specific", google(type_, {"specificReservationRequired": False}))
    assert found("reservation-not-specific", google(type_, {"specificReservationRequired": True})) == []


@pytest.mark.parametrize("seconds", ["599", "604801", "soon", "600.5"])
def test_flex_start_outside_its_limits_is_found(seconds: str) -> None:
    selector = {**FLEX, f"{GKE}/gke-max-run-duration-seconds": seconds}
    assert f"gke-max-run-duration-seconds: {seconds}" in only("flex-start-limits", on(selector))


@pytest.mark.parametrize("seconds", ["600", "604800"])
def test_flex_start_within_its_limits_is_right(seconds: str) -> None:
    assert found("flex-start-limits", on({**FLEX, f"{GKE}/gke-max-run-duration-seconds": seconds})) == []


def test_other_nodes_may_live_longer_than_flex_start() -> None:
    assert found("flex-start-limits", on({**RESERVED, f"{GKE}/gke-max-run-duration-seconds": "9000000"})) == []


def test_a_rung_keeps_the_limits_too() -> None:
    long = compute_class(rung(flexStart={"enabled": True}, maxRunDurationSeconds=604_801))
    assert "spec.priorities[0].maxRunDurationSeconds is 604801" in only("flex-start-limits", long)
    fine = compute_class(rung(flexStart={"enabled": True}, maxRunDurationSeconds=604_800), rung(spot=True))
    assert found("flex-start-limits", fine) == []


@pytest.mark.parametrize(("grace", "found_"), [(15, False), (25, False), (26, True), (600, True)])
def test_a_grace_that_spot_does_not_leave_is_found(grace: int, found_: bool) -> None:
    assert bool(found("spot-grace-above-budget", server(grace=grace))) is found_


def test_the_default_grace_is_too_long_for_spot() -> None:
    assert "is 30 (the default) on Spot nodes, above 25" in only("spot-grace-above-budget", server(grace=None))


def test_a_grace_elsewhere_is_free_and_a_team_sets_its_own_for_spot() -> None:
    assert found("spot-grace-above-budget", on(RESERVED, grace=600)) == []
    assert found("spot-grace-above-budget", server(grace=60), mostSeconds=60.0) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "gke-b200"}, "metadata.name is gke-b200"),
        ({"whenUnsatisfiable": "ScaleUpAnyway"}, "spec.whenUnsatisfiable is ScaleUpAnyway"),
        ({"whenUnsatisfiable": None}, "spec.whenUnsatisfiable is left out"),
    ],
)
def test_an_unsound_class_is_found(change: dict[str, Any], said: str) -> None:
    assert said in only("compute-class-unsound", compute_class(rung(spot=True), **change))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (rung(gpu={"type": "nvidia-b200", "count": 4}), "gpu.count is 4"),
        (
            rung(
                reservations={"affinity": "Specific", "specific": [{"name": "r"}]},
                location={"zones": ["europe-west4-b"]},
            ),
            "has a specific reservation and location.zones",
        ),
        (rung(reservations={"affinity": "Specific", "specific": []}), "and names none"),
        (rung(flexStart={"enabled": True}, spot=True), "is flex-start and something else"),
    ],
)
def test_an_unsound_rung_is_found(bad: dict[str, Any], said: str) -> None:
    assert said in only("compute-class-unsound", compute_class(rung(spot=True), bad))


def test_a_sound_class_is_right() -> None:
    reserved = rung(reservations={"affinity": "Specific", "specific": [{"name": "r", "zones": ["europe-west4-b"]}]})
    flex = rung(flexStart={"enabled": True}, location={"zones": ["europe-west4-b"]})
    assert found("compute-class-unsound", compute_class(reserved, flex, rung(spot=True))) == []
    # A class of CPU machines may fall back on others.
    assert (
        found("compute-class-unsound", compute_class({"machineFamily": "c4"}, whenUnsatisfiable="ScaleUpAnyway")) == []
    )


def test_pods_that_do_not_fit_their_class_are_found() -> None:
    ladder = compute_class(rung(), rung(spot=True))
    assert "asks for 4 GPUs; its ComputeClass b200-ladder-vllm makes nodes with 8" in only(
        "compute-class-mismatch", [ladder, on(CLASS, gpus=4)]
    )
    assert "terminationGracePeriodSeconds is 600" in only("compute-class-mismatch", [ladder, on(CLASS, grace=600)])
    assert found("compute-class-mismatch", [ladder, on(CLASS)]) == []


def test_a_class_without_spot_leaves_the_grace_free_and_other_pods_are_not_its_business() -> None:
    assert found("compute-class-mismatch", [compute_class(rung()), on(CLASS, grace=600)]) == []
    assert found("compute-class-mismatch", [compute_class(rung(spot=True)), on(RESERVED, grace=600)]) == []
    assert found("compute-class-mismatch", [on(CLASS, grace=600)]) == []
