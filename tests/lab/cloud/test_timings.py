from __future__ import annotations

import pytest

from lab.cloud.timings import Timings, timings_for, weights_read_seconds
from tests.support.settings import make_settings


def test_the_default_server_takes_the_articles_ten_minutes_to_load() -> None:
    assert Timings().server_load_seconds == 600


def test_nodes_start_within_their_range_spread_evenly_and_always_alike() -> None:
    starts = [Timings().node_start(number, has_gpus=True) for number in range(100)]
    assert all(300 <= start < 360 for start in starts)
    assert starts == [Timings().node_start(number, has_gpus=True) for number in range(100)]
    for least in range(300, 360, 10):
        assert 15 <= sum(least <= start < least + 10 for start in starts) <= 19
    assert Timings().node_start(1, has_gpus=False) < 300


def test_readers_share_a_volume_and_one_node_cannot_take_more_than_its_own() -> None:
    alone = weights_read_seconds(size_gb=29, throughput_mibps=1200, readers=1)
    assert alone == pytest.approx(23.05, abs=0.01)
    assert weights_read_seconds(size_gb=29, throughput_mibps=1200, readers=4) == pytest.approx(4 * alone)
    fast = weights_read_seconds(size_gb=29, throughput_mibps=100_000, readers=1)
    assert fast == weights_read_seconds(size_gb=29, throughput_mibps=4_000, readers=1)


def test_a_stack_reads_its_weights_at_its_own_throughput_with_all_replicas_of_a_zone() -> None:
    twelve = timings_for(make_settings(weights={"throughputMibps": 4800}))
    assert twelve.weights_read_seconds == pytest.approx(29_000 / (400 * 1.048576))
    zones = {"zones": ["europe-west4-a", "europe-west4-b"]}
    spread = timings_for(make_settings(weights={"throughputMibps": 4800}, **zones))
    assert spread.weights_read_seconds == pytest.approx(twelve.weights_read_seconds / 2)


def test_a_machine_reads_no_faster_than_it_can_and_once_for_the_servers_that_share_it() -> None:
    weights = {"throughputMibps": 40_000}
    whole = {"machine": "a3-highgpu-1g", "server": {"replicas": 1, "engine": {"dataParallelSize": 1}}}
    alone = timings_for(make_settings(weights=weights, **whole))
    assert alone.weights_read_seconds == pytest.approx(29_000 / (2_400 * 1.048576))
    shared = {"machine": "a3-highgpu-8g", "server": {"replicas": 4, "gpus": 1, "engine": {"dataParallelSize": 1}}}
    assert timings_for(make_settings(weights=weights, **shared)).weights_read_seconds == alone.weights_read_seconds


def test_a_machine_without_local_ssds_takes_longer_to_unpack_the_image() -> None:
    small = make_settings(machine="g2-standard-12", server={"replicas": 1, "engine": {"dataParallelSize": 1}})
    assert timings_for(small).large_image_pull_seconds > timings_for(make_settings()).large_image_pull_seconds


def test_a_stack_without_a_volume_downloads_before_it_serves() -> None:
    settings = make_settings(weights={"source": "huggingface"}, server={"replicas": 1})
    assert timings_for(settings).weights_read_seconds == 290
    assert timings_for(settings).download_gb == 29
    assert timings_for(make_settings()).download_gb == 0


def test_a_paused_stack_has_timings_too() -> None:
    assert timings_for(make_settings(server={"replicas": 0})).whole_start_seconds > 900


def test_the_benchmark_takes_its_rounds_of_requests_as_often_as_it_is_repeated() -> None:
    # Five rounds of a thousand requests at the article's pace; around each run 50 s, and 14 ms for each of a client's prompts.
    assert timings_for(make_settings()).benchmark_seconds == pytest.approx(3 * (50 + 70 + 5 * 24), rel=0.01)
    longer = make_settings(benchmark={"enabled": True, "promptsPerClient": 10_000, "repeats": 1})
    assert timings_for(longer).benchmark_seconds == pytest.approx(50 + 140 + 10 * 24, rel=0.01)


def test_a_whole_start_is_the_sum_of_its_parts() -> None:
    assert Timings().whole_start_seconds == 10 + 360 + 90 + 600
