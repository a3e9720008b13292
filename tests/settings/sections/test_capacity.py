"""Capacity is one value, and everything else about nodes follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from settings.problems import SettingsError
from tests.support.settings import make_settings

GKE = "cloud.google.com"


def selector(**capacity: Any) -> dict[str, str]:
    return dict(make_settings(capacity=capacity).placement.node_selector)


def test_spot_asks_for_spot_nodes() -> None:
    placement = make_settings(capacity={"mode": "spot"}).placement
    assert placement.node_selector == {
        f"{GKE}/gke-accelerator": "nvidia-b200",
        f"{GKE}/gke-gpu-driver-version": "latest",
        f"{GKE}/gke-spot": "true",
    }
    assert {t["key"] for t in placement.tolerations} == {"nvidia.com/gpu", f"{GKE}/gke-spot"}
    assert placement.interruptible
    assert placement.price_key == "spot"


MODES: tuple[dict[str, Any], ...] = (
    {"mode": "spot"},
    {"mode": "flex-start", "runDurationSeconds": 86_400},
    {"mode": "calendar", "reservation": "cal"},
    {"mode": "reservation", "name": "cal"},
    {"mode": "compute-class"},
)


@pytest.mark.parametrize("capacity", MODES[:-1], ids=lambda capacity: capacity["mode"])
def test_every_mode_asks_for_the_latest_driver(capacity: dict[str, Any]) -> None:
    """A ComputeClass says it in its priorities: tests/workloads/test_compute_class.py."""
    assert selector(**capacity)[f"{GKE}/gke-gpu-driver-version"] == "latest"


def test_flex_start_names_its_run_duration_and_never_a_reservation_or_spot() -> None:
    labels = selector(mode="flex-start", runDurationSeconds=86_400)
    assert labels[f"{GKE}/gke-flex-start"] == "true"
    assert labels[f"{GKE}/gke-max-run-duration-seconds"] == "86400"
    # GKE refuses flex-start together with a reservation or Spot selector.
    assert not any("reservation" in key or "spot" in key for key in labels)


def test_a_reservation_is_asked_for_specifically_with_its_owner() -> None:
    labels = selector(mode="reservation", name="cal", project="owner-project", commitment="cud-1y")
    assert labels[f"{GKE}/reservation-affinity"] == "specific"
    assert labels[f"{GKE}/reservation-name"] == "cal"
    assert labels[f"{GKE}/reservation-project"] == "owner-project"


@pytest.mark.parametrize(("commitment", "price_key"), [("none", "reservation"), ("cud-1y", "cud-1y")])
def test_a_commitment_prices_a_reservation(commitment: str, price_key: str) -> None:
    settings = make_settings(capacity={"mode": "reservation", "name": "cal", "commitment": commitment})
    assert settings.placement.price_key == price_key
    assert not settings.placement.interruptible


def test_pods_of_a_compute_class_leave_every_selector_to_it() -> None:
    placement = make_settings(capacity={"mode": "compute-class"}).placement
    assert placement.node_selector == {f"{GKE}/compute-class": "b200-vllm-test"}
    assert {t["key"] for t in placement.tolerations} == {"nvidia.com/gpu", f"{GKE}/gke-spot"}


def test_a_compute_class_without_spot_tolerates_none() -> None:
    placement = make_settings(
        capacity={"mode": "compute-class", "reservation": {"name": "r1"}, "spot": False}
    ).placement
    assert {t["key"] for t in placement.tolerations} == {"nvidia.com/gpu"}


@pytest.mark.parametrize("seconds", [599, 604_801])
def test_flex_start_refuses_durations_that_gke_refuses(seconds: int) -> None:
    with pytest.raises(SettingsError) as refusal:
        make_settings(capacity={"mode": "flex-start", "runDurationSeconds": seconds})
    problem = refusal.value.problems[0]
    assert problem.subject == "vllm-fleet:capacity.runDurationSeconds"
    assert problem.found == seconds
