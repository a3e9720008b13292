"""Clients are as many as the connections need, and time is arithmetic: nothing fitted decides either."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.workloads import named_workload
from fleet.plan.from_settings import deployment_of
from fleet.plan.model.deployment import OfferedLoad
from fleet.plan.model.performance import estimate
from settings.derived.benchmark_load import (
    SLOWNESS,
    expected_seconds,
    load_of,
    longest_minutes,
    most_prompts,
    ready_minutes,
    run_minutes,
)
from settings.profiles import NAMES
from settings.stack import Settings
from tests.support.rows import each_row
from tests.support.settings import make_settings

FILE = {"url": "https://example.com/requests.jsonl", "sha256": "0123456789abcdef" * 4}


def benchmarked(replicas: int | str = 12, **benchmark: Any) -> Settings:
    return make_settings(server={"replicas": replicas}, benchmark={"enabled": True, **benchmark})


@pytest.mark.parametrize(
    ("replicas", "clients", "vcpus"),
    [(1, 2, 16), (2, 4, 16), (4, 8, 16), (8, 16, 16), (12, 24, 32), ("external", 2, 16)],
)
def test_the_articles_load_of_2000_a_node_in_clients_of_1000(replicas: int | str, clients: int, vcpus: int) -> None:
    load = load_of(benchmarked(replicas))
    assert (load.clients, load.machine_type) == (clients, f"c4-standard-{vcpus}")
    assert load.connections == 1_000 * clients


@pytest.mark.parametrize(
    ("concurrency", "each", "clients"), [(100, 1000, 2), (100, 400, 3), (2000, 1000, 24), (1, 10, 2)]
)
def test_clients_follow_from_connections_alone(concurrency: int, each: int, clients: int) -> None:
    (point,) = load_of(benchmarked(12, concurrency=[concurrency], connectionsPerClient=each)).points
    assert (point.connections, point.clients) == (12 * concurrency, clients)


def test_a_request_takes_the_articles_time_at_the_articles_load() -> None:
    def seconds(engine: dict[str, Any] | None = None, **benchmark: Any) -> float:
        stack = make_settings(server={"replicas": 2, "engine": engine or {}}, benchmark={"enabled": True, **benchmark})
        (point,) = load_of(stack).points
        return point.request_seconds

    assert seconds() == 24
    assert seconds(concurrency=[4000]) == 48
    assert 6 < seconds(concurrency=[1]) < 6.1
    assert seconds(workload="vllm-1024-512") == pytest.approx(36)
    assert seconds(engine={"dataParallelSize": 4}) == pytest.approx(48)


@each_row("gateway", [False, True])
@each_row("profile", [name for name in NAMES if name != "397b-nvfp4"])
def test_no_run_is_given_up_at_a_pace_that_the_planner_expects(profile: str, gateway: bool) -> None:
    """Constants decide when a run is given up, so they are held against the fitted model here, and nowhere else."""
    for in_flight in (10, 200, 1_000, 2_000):
        stack = make_settings(
            server={"replicas": 2, "profile": profile},
            gateway={"enabled": gateway},
            benchmark={"enabled": True, "concurrency": [in_flight]},
        )
        (point,) = load_of(stack).points
        expected = estimate(deployment_of(stack), named_workload("article"), OfferedLoad(in_flight=2 * in_flight))
        assert SLOWNESS * point.request_seconds > 1.5 * expected.seconds_per_request


@given(
    replicas=st.integers(1, 1_000),
    concurrency=st.lists(st.integers(1, 4_000), min_size=1, max_size=3, unique=True),
    each=st.integers(1, 1_000),
)
def test_no_client_is_overfull(replicas: int, concurrency: list[int], each: int) -> None:
    load = load_of(benchmarked(replicas, concurrency=concurrency, connectionsPerClient=each))
    assert [point.connections for point in load.points] == [one * replicas for one in concurrency]
    for point in load.points:
        assert 1 <= point.clients <= point.connections
        assert -(-point.connections // point.clients) <= each


def test_the_time_follows_loads_repeats_and_prompts() -> None:
    once = expected_seconds(benchmarked(repeats=1))
    assert expected_seconds(benchmarked(repeats=5)) == pytest.approx(5 * once)
    assert expected_seconds(benchmarked(repeats=1, promptsPerClient=50_000)) > 5 * once
    two = expected_seconds(benchmarked(repeats=1, concurrency=[1000, 2000]))
    assert once < two


@pytest.mark.parametrize(
    "benchmark",
    [
        {},
        {"repeats": 20},
        {"concurrency": [1, 2000]},
        {"promptsPerClient": 1_000_000},
        {"workload": "trace", "dataset": FILE},
    ],
)
def test_a_measurement_at_its_pace_ends_long_before_it_is_given_up(benchmark: dict[str, Any]) -> None:
    settings = benchmarked(2, **benchmark)
    assert longest_minutes(settings) * 60 >= 3.9 * expected_seconds(settings)
    assert run_minutes(settings) <= longest_minutes(settings)


def test_a_run_that_is_given_up_at_the_last_moment_leaves_time_for_the_others() -> None:
    settings = benchmarked(repeats=3, concurrency=[1000, 2000])
    assert longest_minutes(settings) >= 6 * run_minutes(settings)


def test_a_dataset_takes_its_download() -> None:
    sharegpt = benchmarked(workload="sharegpt", dataset=FILE)
    copied = sharegpt.model_copy(update={"benchmark": sharegpt.benchmark.model_copy(update={"dataset": None})})
    assert longest_minutes(sharegpt) == longest_minutes(copied) + 20


def test_many_prompts_get_the_time_that_it_takes_to_draw_them() -> None:
    # Measured: 7 ms a prompt. 200,000 of them are 23 minutes, on a core of one's own.
    many, few = benchmarked(repeats=1, promptsPerClient=200_000), benchmarked(repeats=1)
    assert ready_minutes(many) > 2 * 23
    assert ready_minutes(few) == 20
    under_load = 4 * 200_000 // 1_000 * 24 // 60
    assert longest_minutes(many) > under_load + ready_minutes(many) - 20


def test_fewer_clients_in_a_pod_may_remember_more() -> None:
    # 16 clients share 48 GiB: 2 GiB each is for prompts and answers, some 25 kB a request.
    crowded, roomy = most_prompts(benchmarked(8)), most_prompts(benchmarked(12))
    assert 60_000 < crowded < 110_000
    assert crowded < roomy
