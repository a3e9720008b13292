"""Counters by their increase within the window, gauges by their mean, and servers that began anew."""

from __future__ import annotations

from math import inf

import pytest

from fleet.bench.folder import MetricsSample
from fleet.bench.measurement import ServerMetrics
from fleet.bench.merge import merge_folder
from fleet.bench.merge.servers import cache_spread, server_metrics
from tests.fleet.bench.merge.folders import sound

GENERATED, RUNNING = "vllm:generation_tokens_total", "vllm:num_requests_running"


def samples(
    values: list[float | None], server: str = "10.0.0.1:1", engine: str = "0", metric: str = GENERATED
) -> list[MetricsSample]:
    """One a second from second 0; None: a scrape that failed."""
    return [
        MetricsSample(at=float(at), server=server, error="timed out")
        if value is None
        else MetricsSample(at=float(at), server=server, values={metric: {engine: value}})
        for at, value in enumerate(values)
    ]


def figures(found: list[MetricsSample], window: tuple[float, float]) -> ServerMetrics:
    server, _ = server_metrics(found, window)
    assert server is not None
    return server


def test_counters_are_read_over_the_window_and_interpolated_at_its_edges() -> None:
    found = figures(samples([100.0, 110.0, 130.0, 160.0, 160.0]), (0.5, 2.5))
    assert found.engines[0].generation_tokens == pytest.approx((130 - 105) + 15)
    assert found.generation_tokens == 60.0


def test_a_counter_that_falls_counts_from_zero_and_is_named() -> None:
    found, remarks = server_metrics(samples([1000.0, 1100.0, 40.0, 90.0]), (0.0, 3.0))
    assert found is not None
    assert found.engines[0].generation_tokens == 100 + 40 + 50
    assert [remark.split()[:2] for remark in remarks] == [["server", "10.0.0.1:1"]]


def test_gauges_may_fall_and_are_interpolated_where_nothing_was_read() -> None:
    found = figures(samples([8.0, 2.0, 6.0], metric=RUNNING), (0.5, 2.0))
    assert (found.engines[0].running_mean, found.engines[0].running_peak) == (4.0, 6.0)
    gap = figures(samples([8.0, *[None] * 10, 6.0], metric=RUNNING), (3.0, 9.0))
    assert gap.engines[0].running_mean == pytest.approx(8.0 - 2.0 * 6 / 11)


def test_servers_that_were_not_read_to_the_end_are_named() -> None:
    late = [one for one in samples([float(i) for i in range(30)]) if one.at >= 12]
    look_up = MetricsSample(at=1.5, server="servers.vllm.svc:8000", error="it has no address")
    found, remarks = server_metrics([look_up, *late, *samples([None, None], server="10.0.0.2:1")], (2.0, 28.0))
    assert found is not None
    assert found.servers == 1
    assert [remark.split()[4] for remark in remarks] == ["10.0.0.1:1", "10.0.0.2:1"]
    assert server_metrics([look_up], (0.0, 2.0)) == (None, [])


def test_engines_are_in_the_order_of_their_ranks() -> None:
    every = [one for engine in ("10", "2", "0") for one in samples([0.0, 1.0], engine=engine)]
    assert [one.engine for one in figures(every, (0.0, 1.0)).engines] == ["0", "2", "10"]


def test_a_run_has_its_servers_figures() -> None:
    run = merge_folder(sound(requests_per_client=96)).runs[0]
    server = run.server
    assert server is not None
    assert (server.servers, len(server.engines), server.cache_spread) == (2, 8, 0.0)
    assert server.acceptance_rate == pytest.approx(0.9)
    assert server.prefix_hit_share == pytest.approx(0.01)
    assert server.generation_tokens == pytest.approx(run.whole.output_tokens_per_s * run.whole.seconds, rel=1e-6)
    assert run.steady is not None
    in_window = run.steady.output_tokens_per_s * run.steady.seconds
    assert sum(one.generation_tokens for one in server.engines) == pytest.approx(in_window, rel=0.05)
    assert sum(one.running_mean for one in server.engines) == pytest.approx(16, rel=0.1)


def test_faults_of_servers_show_where_they_are() -> None:
    run = merge_folder(
        sound(requests_per_client=96, starved_engine=2, choked_engine=1, foreign_tokens=0.5, preemptions=3)
    ).runs[0]
    server = run.server
    assert server is not None
    assert server.engines[2].generation_tokens == 0.0
    assert server.engines[1].waiting_peak > 400
    assert server.engines[1].kv_peak == pytest.approx(0.996)
    assert server.generation_tokens == pytest.approx(1.5 * run.whole.output_tokens_per_s * run.whole.seconds, rel=1e-3)
    assert server.preemptions > 0


def test_a_restart_within_a_run_neither_adds_nor_takes_much() -> None:
    merged = merge_folder(sound(requests_per_client=96, engine_restart=True))
    got, wanted = merged.runs[0].server, merge_folder(sound(requests_per_client=96)).runs[0].server
    assert got is not None
    assert wanted is not None
    assert got.generation_tokens == pytest.approx(wanted.generation_tokens, rel=0.1)
    assert [remark.split("server ")[1].split()[0] for remark in merged.remarks] == ["10.0.1.1:8000"]


def _cache(blocks: str, size: str = "16") -> dict[str, str]:
    return {"num_gpu_blocks": blocks, "block_size": size}


def test_caches_differ_by_their_blocks_or_altogether() -> None:
    assert cache_spread([_cache("100"), _cache("103")]) == pytest.approx(0.03)
    assert cache_spread([_cache("100"), _cache("100", "32")]) == inf
    assert cache_spread([_cache("100"), _cache("None")]) == inf
    assert cache_spread([]) == 0.0
