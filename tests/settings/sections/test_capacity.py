"""Capacity is one value, and everything else about nodes follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

GKE = "cloud.google.com"
B200 = {f"{GKE}/gke-accelerator": "nvidia-b200", f"{GKE}/gke-gpu-driver-version": "latest"}
GPU, SPOT = {"nvidia.com/gpu"}, {"nvidia.com/gpu", f"{GKE}/gke-spot"}
OURS = {"mode": "reservation", "name": "cal"}


def reserved(**more: str) -> dict[str, str]:
    """Asked for specifically, with its owner where that is another project."""
    return {f"{GKE}/reservation-{key}": value for key, value in {"affinity": "specific", "name": "cal", **more}.items()}


@each_row(
    ("capacity", "selector", "tolerated", "price", "interruptible"),
    [
        ({"mode": "spot"}, {**B200, f"{GKE}/gke-spot": "true"}, SPOT, "spot", True),
        # GKE refuses flex-start together with a reservation or Spot selector.
        (
            {"mode": "flex-start", "runDurationSeconds": 86_400},
            {**B200, f"{GKE}/gke-flex-start": "true", f"{GKE}/gke-max-run-duration-seconds": "86400"},
            GPU,
            "flex-start",
            False,
        ),
        ({"mode": "calendar", "reservation": "cal"}, {**B200, **reserved()}, GPU, "calendar", False),
        (OURS, {**B200, **reserved()}, GPU, "reservation", False),
        (
            {**OURS, "commitment": "cud-1y", "project": "owner-project"},
            {**B200, **reserved(project="owner-project")},
            GPU,
            "cud-1y",
            False,
        ),
        # A ComputeClass says the rest in its priorities: tests/workloads/test_compute_class.py.
        ({"mode": "compute-class"}, {f"{GKE}/compute-class": "b200-vllm-test"}, SPOT, "compute-class", True),
        (
            {"mode": "compute-class", "reservation": {"name": "r1"}, "spot": False},
            {f"{GKE}/compute-class": "b200-vllm-test"},
            GPU,
            "compute-class",
            False,
        ),
    ],
)
def test_pods_ask_for_nodes_by_the_mode_and_pay_its_price(
    capacity: dict[str, Any], selector: dict[str, str], tolerated: set[str], price: str, interruptible: bool
) -> None:
    placement = make_settings(capacity=capacity).placement
    assert placement.node_selector == selector
    assert {one["key"] for one in placement.tolerations} == tolerated
    assert (placement.price_key, placement.interruptible) == (price, interruptible)


@pytest.mark.parametrize("seconds", [599, 604_801])
def test_flex_start_refuses_durations_that_gke_refuses(seconds: int) -> None:
    with pytest.raises(SettingsError) as refusal:
        make_settings(capacity={"mode": "flex-start", "runDurationSeconds": seconds})
    problem = refusal.value.problems[0]
    assert problem.subject == "vllm-fleet:capacity.runDurationSeconds"
    assert problem.found == seconds
