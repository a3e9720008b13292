"""The autoscaler's objects: what asks for servers, when, how fast, and who never writes their number."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from facts.names import PAUSED_REPLICAS
from fleet.preview.record.recorder import Recording
from settings.derived.scaling import scaling_policy
from settings.stack import Settings
from tests.support.recorded import manifest, needs, objects, recorded_component
from tests.workloads.args import server_args
from workloads.autoscaling import NEVER_ALONE, Autoscaling, AutoscalingArgs
from workloads.server.server import Server

OFFICE = {"days": ["MO", "TU", "WE", "TH", "FR"], "start": "07:00", "end": "20:00", "replicas": 4}


def build(settings: Settings, opts: pulumi.ResourceOptions) -> object:
    policy = scaling_policy(settings)
    assert policy is not None
    server = Server("server", server_args(settings), opts)
    return Autoscaling("autoscaling", AutoscalingArgs(server=server, policy=policy, project="p"), opts)


def record(server: dict[str, Any] | None = None, **scaling: Any) -> Recording:
    section = {"scaling": {"mode": "load", "min": 2, "max": 8, **scaling}, **(server or {})}
    return recorded_component(build, server=section, weights={"source": "huggingface"})


def scaled_object(**scaling: Any) -> dict[str, Any]:
    return manifest(objects(record(**scaling))["ScaledObject/qwen35-server"])


def triggers(**scaling: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scaled_object(**scaling)["spec"]["triggers"]
    return found


def test_the_autoscaler_comes_after_its_servers_and_its_credentials() -> None:
    recording = record()
    assert needs(recording, objects(recording)["ScaledObject/qwen35-server"]) == {
        "TriggerAuthentication/gmp",
        "Deployment/qwen35-server",
    }


@pytest.mark.parametrize(
    ("window", "start", "end"),
    [
        (OFFICE, "30 6 * * 1,2,3,4,5", "0 20 * * 1,2,3,4,5"),
        ({**OFFICE, "days": ["MO", "SU"], "start": "00:10", "end": "24:00"}, "40 23 * * 0,6", "0 0 * * 1,2"),
        ({"start": "10:00", "end": "12:00", "replicas": 3}, "30 9 * * *", "0 12 * * *"),
    ],
    ids=["office", "over midnight", "every day"],
)
def test_a_window_asks_for_servers_a_lead_and_ten_minutes_before_it_begins(
    window: dict[str, Any], start: str, end: str
) -> None:
    cron = triggers(windows=[window], timezone="Europe/Berlin")[1]
    assert cron["type"] == "cron"
    assert cron["metadata"] == {
        "timezone": "Europe/Berlin",
        "start": start,
        "end": end,
        "desiredReplicas": str(window["replicas"]),
    }


def test_a_schedule_asks_nobody_for_metrics() -> None:
    recording = record(mode="schedule", min=0, windows=[OFFICE])
    assert not [key for key in objects(recording) if key.startswith("TriggerAuthentication/")]
    spec = manifest(objects(recording)["ScaledObject/qwen35-server"])["spec"]
    assert [one["type"] for one in spec["triggers"]] == ["cron"]
    assert (spec["minReplicaCount"], "fallback" in spec) == (0, False)


def test_at_a_minimum_of_zero_the_clock_decides_and_no_fallback_starts_a_server_at_night() -> None:
    night, day = scaled_object(min=0, windows=[OFFICE])["spec"], scaled_object()["spec"]
    assert night["triggers"][0]["metadata"]["activationThreshold"] == str(NEVER_ALONE)
    assert "activationThreshold" not in day["triggers"][0]["metadata"]
    assert ["fallback" in one for one in (day, night)] == [True, False]


@pytest.mark.parametrize(
    "scaling",
    [
        {"mode": "batch", "min": 0},
        {"mode": "schedule", "min": 0, "windows": [OFFICE]},
    ],
    ids=["batch", "schedule"],
)
def test_a_fleet_with_a_minimum_of_zero_begins_without_a_server_and_leaves_the_number_to_its_autoscaler(
    scaling: dict[str, Any],
) -> None:
    fleet = objects(record(**scaling))["Deployment/qwen35-server"]
    assert (fleet.inputs["spec"]["replicas"], fleet.ignore_changes) == (0, ("spec.replicas",))
    never_empty = objects(record())["Deployment/qwen35-server"]
    assert "replicas" not in never_empty.inputs["spec"]
    assert never_empty.ignore_changes == ("spec.replicas",)


def test_a_paused_fleet_is_held_at_zero_by_its_autoscaler() -> None:
    recording = record(server={"replicas": 0})
    found = objects(recording)
    assert found["ScaledObject/qwen35-server"].inputs["metadata"]["annotations"] == {PAUSED_REPLICAS: "0"}
    fleet = found["Deployment/qwen35-server"]
    # A first update of a paused fleet would else rent a machine for Kubernetes' default of one pod.
    assert (fleet.inputs["spec"]["replicas"], fleet.ignore_changes) == (0, ("spec.replicas",))
