from __future__ import annotations

import json
from typing import Any

import pytest

from lab.cloud.kubelet_stages import EXIT_CODE, LEADER, LEADER_FLAG, RUN_SECONDS, kubelet_stages
from lab.cloud.timings import Timings
from lab.cloud.world import COMPILED, VOLUMES_ATTACHED
from lab.control_plane.api import Manifest
from lab.results.clock import Clock


def stages(speed: float = 60.0, **timings: Any) -> dict[str, Manifest]:
    made = kubelet_stages(Timings(**timings), Clock(speed))
    return {one["metadata"]["name"]: one["spec"] for one in made}


def test_nodes_and_pods_have_every_stage_of_a_life() -> None:
    kinds = {name: spec["resourceRef"]["kind"] for name, spec in stages().items()}
    assert kinds == {
        "node-ready": "Node",
        "pod-start": "Pod",
        "pod-ready": "Pod",
        "pod-evicted": "Pod",
        "pod-complete": "Pod",
        "pod-end": "Pod",
        "pod-end-of-job": "Pod",
    }


def test_stages_are_plain_data_for_kwok() -> None:
    for one in kubelet_stages(Timings(), Clock()):
        assert json.loads(json.dumps(one)) == one
        assert (one["apiVersion"], one["kind"]) == ("kwok.x-k8s.io/v1alpha1", "Stage")


@pytest.mark.parametrize("speed", [1.0, 60.0, 600.0])
def test_every_delay_is_divided_by_the_clocks_speed(speed: float) -> None:
    for name, spec in stages(speed).items():
        if name != "node-ready":
            expression = spec["delay"]["durationFrom"]["jq"]["expression"]
            assert expression.endswith(f' * 1000 / {speed!r} | tostring) + "ms"')


def delay(name: str, **timings: Any) -> str:
    expression: str = stages(**timings)[name]["delay"]["durationFrom"]["jq"]["expression"]
    return expression


def test_durations_come_from_the_timings() -> None:
    assert "77.0" in delay("pod-start", large_image_pull_seconds=77.0)
    assert "88.0" in delay("pod-start", init_container_seconds=88.0)
    assert "1099.0" in delay("pod-ready", weights_read_seconds=99.0, engine_start_seconds=1000.0)
    assert "99.0" in delay("pod-evicted", weights_read_seconds=99.0)
    assert "1111.0" in delay("pod-ready", weights_read_seconds=99.0, warm_engine_start_seconds=1012.0)
    assert "66.0" in delay("pod-complete", writer_seconds=66.0)
    assert "55.0" in delay("pod-complete", benchmark_seconds=55.0)
    assert "44.0" in delay("pod-end", exit_seconds=44.0)


def test_what_drills_write_on_a_pod_is_read_by_a_stage() -> None:
    text = json.dumps(kubelet_stages(Timings(), Clock()))
    for annotation in (RUN_SECONDS, EXIT_CODE, LEADER, VOLUMES_ATTACHED, COMPILED, LEADER_FLAG):
        assert annotation in text


def test_no_stage_names_a_stack() -> None:
    text = json.dumps(kubelet_stages(Timings(), Clock()))
    assert "qwen" not in text
