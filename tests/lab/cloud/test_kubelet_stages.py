from __future__ import annotations

from typing import Any

import pytest

from lab.cloud.kubelet_stages import kubelet_stages
from lab.cloud.timings import Timings
from lab.control_plane.api import Manifest
from lab.results.clock import Clock


def stages(speed: float = 60.0, **timings: Any) -> dict[str, Manifest]:
    made = kubelet_stages(Timings(**timings), Clock(speed))
    return {one["metadata"]["name"]: one["spec"] for one in made}


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
    assert "66.0" in delay("pod-complete", writer_seconds=66.0)
    assert "55.0" in delay("pod-complete", benchmark_seconds=55.0)
    assert "44.0" in delay("pod-end", exit_seconds=44.0)
