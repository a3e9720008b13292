"""The ComputeClass of `capacity.mode: compute-class`."""

from __future__ import annotations

from typing import Any

import pytest

from facts.capacity import CLASS_IDLE_SECONDS, FULL_QUOTA_IDLE_SECONDS, MAX_GRACE_SECONDS, quota_retry_seconds
from tests.support.recorded import manifest, objects, recorded_component
from tests.support.rows import each_row
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import compute_class_args
from workloads.compute_class import ComputeClass, compute_class_spec

FULL: dict[str, Any] = {"mode": "compute-class", "reservation": {"name": "b200-block", "project": "capacity-pool"}}


def spec(**sections: Any) -> dict[str, Any]:
    return compute_class_spec(compute_class_args(make_settings(**sections)))


def test_the_class_is_accepted_by_gkes_own_schema_and_named_as_the_pods_select_it() -> None:
    recording = recorded_component(
        lambda settings, opts: ComputeClass("capacity", compute_class_args(settings), opts), capacity=FULL
    )
    (resource,) = objects(recording).values()
    assert problems(manifest(resource)) == []
    selector = make_settings(capacity=FULL).placement.node_selector
    assert selector == {"cloud.google.com/compute-class": resource.inputs["metadata"]["name"]}


def test_the_other_priorities_stay_where_the_weights_are() -> None:
    priorities = spec(capacity=FULL, zones=["europe-west4-b", "europe-west4-a"])["priorities"]
    assert [priority["location"]["zones"] for priority in priorities[1:]] == [["europe-west4-a", "europe-west4-b"]] * 2


@each_row(
    ("compute_class", "priorities"),
    [
        (FULL, ["reservations", "spot", "flexStart"]),
        ({"mode": "compute-class"}, ["spot", "flexStart"]),
        (FULL | {"spot": False}, ["reservations", "flexStart"]),
        (FULL | {"flexStartSeconds": None}, ["reservations", "spot"]),
    ],
)
def test_priorities_come_in_one_order_and_are_left_out_as_asked(
    compute_class: dict[str, Any], priorities: list[str]
) -> None:
    found = [
        set(priority) & {"reservations", "flexStart", "spot"} for priority in spec(capacity=compute_class)["priorities"]
    ]
    assert found == [{priority} for priority in priorities]


def test_a_flex_start_node_is_replaced_before_its_time_is_up_if_it_lives_long_enough() -> None:
    long, short = (
        spec(capacity={"mode": "compute-class", "flexStartSeconds": seconds})["priorities"][-1]
        for seconds in (604_800, 3_600)
    )
    assert long["flexStart"]["nodeRecycling"] == {"leadTimeSeconds": 3600}
    assert long["maxRunDurationSeconds"] == 604_800
    assert short["flexStart"] == {"enabled": True}


BY_LOAD = {"mode": "load", "max": 8}
OFFICE = {"start": "08:00", "end": "19:00"}


@pytest.mark.parametrize(
    ("server", "minutes"),
    [
        ({"replicas": 2}, 6),  # the quota has no room for a replacement until the old pod is gone
        ({"scaling": BY_LOAD}, 1),
        ({"scaling": BY_LOAD, "replicas": 0}, 1),
        ({"replicas": "external"}, 1),
    ],
)
def test_an_empty_node_stays_until_a_replacement_pod_can_be_there(server: dict[str, Any], minutes: int) -> None:
    assert spec(capacity=FULL, server=server)["autoscalingPolicy"] == {"consolidationDelayMinutes": minutes}


def test_a_refused_pod_is_tried_again_before_its_node_is_removed() -> None:
    waits = [quota_retry_seconds(gone) - gone for gone in range(MAX_GRACE_SECONDS + 1)]
    assert CLASS_IDLE_SECONDS < max(waits) < FULL_QUOTA_IDLE_SECONDS


@pytest.mark.parametrize(
    ("server", "returns"),
    [
        ({"replicas": 2}, True),
        ({"replicas": 1}, False),
        ({"replicas": 0}, False),
        ({"replicas": "external"}, False),
        ({"scaling": BY_LOAD | {"min": 2}}, True),
        ({"scaling": BY_LOAD | {"min": 1, "windows": [OFFICE | {"replicas": 4}]}}, False),
        ({"scaling": {"mode": "schedule", "min": 0, "max": 4, "windows": [OFFICE | {"replicas": 4}]}}, True),
        (
            {
                "scaling": {
                    "mode": "schedule",
                    "min": 0,
                    "max": 4,
                    "windows": [OFFICE | {"replicas": 4}, {"start": "19:00", "end": "22:00", "replicas": 1}],
                }
            },
            False,
        ),
    ],
)
def test_replicas_return_to_an_earlier_priority_where_others_serve_meanwhile(
    server: dict[str, Any], returns: bool
) -> None:
    expected = {"optimizeRulePriority": True} if returns else None
    assert spec(capacity=FULL, server=server).get("activeMigration") == expected


def test_a_single_priority_has_no_way_back() -> None:
    only = {"mode": "compute-class", "flexStartSeconds": None, "reservation": {"name": "r1"}, "spot": False}
    assert "activeMigration" not in spec(capacity=only, server={"replicas": 2})


@pytest.mark.parametrize(
    ("sections", "long"),
    [
        ({"cluster": {"releaseChannel": "RAPID"}}, True),
        ({"cluster": {"releaseChannel": "REGULAR"}}, True),
        ({"cluster": {"releaseChannel": "STABLE"}}, False),
        ({"cluster": {"releaseChannel": "STABLE", "minVersion": "1.35.0-gke.1170000"}}, False),
        ({"cluster": {"releaseChannel": "STABLE", "minVersion": "1.35.0-gke.1171000"}}, True),
        # The version of another stack's cluster is not known.
        ({"platform": {"stack": "org/vllm-fleet/base"}}, False),
    ],
)
def test_spot_nodes_take_two_minutes_to_shut_down_where_the_clusters_version_can(
    sections: dict[str, Any], long: bool
) -> None:
    reserved, spot, flex = spec(capacity=FULL, **sections)["priorities"]
    assert not any("nodeSystemConfig" in priority for priority in (reserved, flex))
    shutdown = spot.get("nodeSystemConfig", {}).get("kubeletConfig", {})
    expected = {"shutdownGracePeriodSeconds": 120, "shutdownGracePeriodCriticalPodsSeconds": 15}
    assert shutdown == (expected if long else {})


def test_the_priorities_and_the_name_are_of_the_stacks_machine() -> None:
    made = make_settings(
        machine="g2-standard-24", capacity={"mode": "compute-class"}, server={"engine": {"dataParallelSize": 2}}
    )
    assert made.placement.node_selector["cloud.google.com/compute-class"] == "l4-vllm-test"
    priorities = spec(machine="g2-standard-24", capacity={"mode": "compute-class"})["priorities"]
    assert {
        (priority["machineType"], priority["gpu"]["type"], priority["gpu"]["count"]) for priority in priorities
    } == {("g2-standard-24", "nvidia-l4", 2)}
