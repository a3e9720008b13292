"""The ComputeClass of the ladder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from settings.sections.capacity import Ladder
from tests.support.recorded import manifest, objects, recorded_component
from tests.support.schemas import problems
from tests.support.settings import make_settings
from tests.workloads.args import ladder_args
from workloads.capacity_ladder import CapacityLadder, compute_class_spec

FULL: dict[str, Any] = {"mode": "ladder", "reservation": {"name": "b200-block", "project": "capacity-pool"}}


def spec(**sections: Any) -> dict[str, Any]:
    return compute_class_spec(ladder_args(make_settings(**sections)))


def test_the_class_is_accepted_by_gkes_own_schema_and_named_as_the_pods_select_it() -> None:
    recording = recorded_component(
        lambda settings, opts: CapacityLadder("ladder", ladder_args(settings), opts), capacity=FULL
    )
    (resource,) = objects(recording).values()
    assert problems(manifest(resource)) == []
    selector = make_settings(capacity=FULL).placement.node_selector
    assert selector == {"cloud.google.com/compute-class": resource.inputs["metadata"]["name"]}


def test_the_rungs_are_tried_in_order_and_all_are_whole_a4_nodes() -> None:
    rungs = spec(capacity=FULL)["priorities"]
    assert ["reservations" in rungs[0], "flexStart" in rungs[1], rungs[2].get("spot")] == [True, True, True]
    for rung in rungs:
        assert rung["machineType"] == "a4-highgpu-8g"
        assert rung["gpu"] == {"type": "nvidia-b200", "count": 8, "driverVersion": "latest"}
        assert sum(key in rung for key in ("reservations", "flexStart", "spot")) == 1


def test_a_specific_reservation_names_its_zones_inside_and_nowhere_else() -> None:
    rung = spec(capacity=FULL)["priorities"][0]
    assert "location" not in rung
    assert rung["reservations"] == {
        "affinity": "Specific",
        "specific": [{"name": "b200-block", "project": "capacity-pool", "zones": ["europe-west4-b"]}],
    }


def test_the_other_rungs_stay_where_the_weights_are() -> None:
    rungs = spec(capacity=FULL, zones=["europe-west4-b", "europe-west4-a"])["priorities"]
    assert [rung["location"]["zones"] for rung in rungs[1:]] == [["europe-west4-a", "europe-west4-b"]] * 2


def test_nothing_else_is_bought_when_no_rung_has_a_node() -> None:
    assert spec(capacity=FULL)["whenUnsatisfiable"] == "DoNotScaleUp"


def test_rungs_are_left_out_as_asked() -> None:
    assert len(spec(capacity={"mode": "ladder"})["priorities"]) == 2
    only_flex = spec(capacity={"mode": "ladder", "reservation": {"name": "r1"}, "spot": False})
    assert [set(rung) & {"reservations", "flexStart", "spot"} for rung in only_flex["priorities"]] == [
        {"reservations"},
        {"flexStart"},
    ]


def test_a_flex_start_node_is_replaced_before_its_time_is_up_if_it_lives_long_enough() -> None:
    long, short = (
        spec(capacity={"mode": "ladder", "flexStartSeconds": seconds})["priorities"][0] for seconds in (604_800, 3_600)
    )
    assert long["flexStart"]["nodeRecycling"] == {"leadTimeSeconds": 3600}
    assert long["maxRunDurationSeconds"] == 604_800
    assert short["flexStart"] == {"enabled": True}


def test_empty_nodes_are_removed_after_a_minute() -> None:
    assert spec(capacity=FULL)["autoscalingPolicy"] == {"consolidationDelayMinutes": 1}


def test_replicas_return_to_an_earlier_rung_where_there_is_one() -> None:
    assert spec(capacity=FULL)["activeMigration"] == {"optimizeRulePriority": True}
    assert "activeMigration" not in spec(
        capacity={"mode": "ladder", "flexStartSeconds": None, "reservation": {"name": "r1"}, "spot": False}
    )


@pytest.mark.parametrize(
    ("cluster", "long"),
    [
        ({"releaseChannel": "RAPID"}, True),
        ({"releaseChannel": "REGULAR"}, True),
        ({"releaseChannel": "STABLE"}, False),
        ({"releaseChannel": "STABLE", "minVersion": "1.35.0-gke.1170000"}, False),
        ({"releaseChannel": "STABLE", "minVersion": "1.35.0-gke.1171000"}, True),
    ],
)
def test_spot_nodes_take_two_minutes_to_shut_down_where_the_clusters_version_can(
    cluster: dict[str, Any], long: bool
) -> None:
    *others, spot = spec(capacity=FULL, cluster=cluster)["priorities"]
    assert not any("nodeSystemConfig" in rung for rung in others)
    shutdown = spot.get("nodeSystemConfig", {}).get("kubeletConfig", {})
    expected = {"shutdownGracePeriodSeconds": 120, "shutdownGracePeriodCriticalPodsSeconds": 15}
    assert shutdown == (expected if long else {})


def test_the_version_of_another_stacks_cluster_is_not_known() -> None:
    rungs = spec(capacity=FULL, platform={"stack": "org/vllm-fleet/base"})["priorities"]
    assert not any("nodeSystemConfig" in rung for rung in rungs)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"class_name": "gke-ladder"}, "class_name"),
        ({"ladder": Ladder(mode="ladder", flex_start_seconds=None, spot=False)}, "ladder"),
        ({"zones": ()}, "zones"),
    ],
)
def test_what_gke_would_refuse_is_refused_here(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^✗ CapacityLadderArgs\.{field}: "):
        replace(ladder_args(make_settings(capacity=FULL)), **changed)


def test_the_rungs_and_the_name_are_of_the_stacks_machine() -> None:
    made = make_settings(
        machine="g2-standard-24", capacity={"mode": "ladder"}, server={"engine": {"dataParallelSize": 2}}
    )
    assert ladder_args(made).class_name == "l4-ladder-vllm-test"
    rungs = spec(machine="g2-standard-24", capacity={"mode": "ladder"})["priorities"]
    assert {(rung["machineType"], rung["gpu"]["type"], rung["gpu"]["count"]) for rung in rungs} == {
        ("g2-standard-24", "nvidia-l4", 2)
    }
