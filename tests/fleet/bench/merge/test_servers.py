"""Counters by their increase within the window, gauges by their mean, and servers that began anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.bench.folder import MetricsSample
from fleet.bench.merge import merge_folder
from fleet.bench.merge.servers import server_metrics
from tests.fleet.bench.merge.folders import copied, sound

GENERATED, RUNNING = "vllm:generation_tokens_total", "vllm:num_requests_running"


def samples(
    values: list[float | None], server: str = "a:1", engine: str = "0", metric: str = GENERATED
) -> list[MetricsSample]:
    """One a second from second 0; None: a scrape that failed."""
    return [
        MetricsSample(at=float(at), server=server, error="timed out")
        if value is None
        else MetricsSample(at=float(at), server=server, values={metric: {engine: value}})
        for at, value in enumerate(values)
    ]


def test_counters_are_read_over_the_window_and_interpolated_at_its_edges() -> None:
    found, remarks = server_metrics(samples([100.0, 110.0, 130.0, 160.0, 160.0]), (0.5, 2.5), 0.0)
    assert found.engines[0].generation_tokens == pytest.approx((130 - 105) + 15)
    assert found.generation_tokens == 60.0
    assert remarks == []


def test_a_counter_that_falls_counts_from_zero_and_is_named() -> None:
    found, remarks = server_metrics(samples([1000.0, 1100.0, 40.0, 90.0]), (0.0, 3.0), 0.0)
    assert found.engines[0].generation_tokens == 100 + 40 + 50
    assert len(remarks) == 1
    assert "server a:1 " in remarks[0]
    assert " 2 s " in remarks[0]


def test_gauges_may_fall() -> None:
    found, remarks = server_metrics(samples([8.0, 2.0, 6.0], metric=RUNNING), (0.5, 2.0), 0.0)
    assert (found.engines[0].running_mean, found.engines[0].running_peak) == (4.0, 6.0)
    assert remarks == []


def test_failed_scrapes_are_counted_and_bridged() -> None:
    found, remarks = server_metrics(samples([0.0, None, 20.0, 30.0]), (1.0, 3.0), 0.0)
    assert (found.failed_scrapes, found.scrapes) == (1, 4)
    assert found.engines[0].generation_tokens == pytest.approx(20.0)
    assert remarks == []


def test_a_server_that_was_never_read_and_one_that_was_read_late_are_named() -> None:
    late = [one for one in samples([float(i) for i in range(30)]) if one.at >= 12]
    found, remarks = server_metrics([*late, *samples([None, None], server="10.0.0.2:1")], (2.0, 28.0), 0.0)
    assert found.servers == 2
    assert [remark.split()[:2] for remark in remarks] == [["server", "10.0.0.2:1"], ["server", "a:1's"]]
    assert " 16 of the 26 s " in remarks[1]


@pytest.mark.parametrize("host", ["servers.vllm.svc.cluster.local:8000", "a.example:1,b.example:2"])
def test_a_look_up_of_the_addresses_that_failed_is_no_server(host: str) -> None:
    """The collector asks DNS every few seconds; a name that once does not resolve is not one server more than there are."""
    read = [*samples([0.0, 10.0, 20.0], server="10.0.0.1:8000"), *samples([0.0, 10.0, 20.0], server="[fd00::1]:8000")]
    asked = MetricsSample(at=1.5, server=host, error="it has no address: Temporary failure in name resolution")
    found, remarks = server_metrics([*read, asked], (0.0, 2.0), 0.0)
    assert (found.servers, found.scrapes, found.failed_scrapes) == (2, 6, 0)
    assert len(remarks) == 1
    assert host in remarks[0]
    nothing, _ = server_metrics([asked], (0.0, 2.0), 0.0)
    assert (nothing.servers, nothing.scrapes, nothing.engines) == (0, 0, ())


def test_a_server_that_was_not_read_within_the_window_did_not_stand_idle() -> None:
    values = [8.0, *[None] * 10, 6.0]
    found, remarks = server_metrics(samples(values, metric=RUNNING), (3.0, 9.0), 0.0)
    assert found.engines[0].running_mean == pytest.approx(8.0 - 2.0 * 6 / 11)
    assert found.timeline.running == (8.0, 6.0)
    assert [remark.split()[:2] for remark in remarks] == [["server", "a:1"]]


def test_engines_are_in_the_order_of_their_ranks() -> None:
    every = [one for engine in ("10", "2", "0") for one in samples([0.0, 1.0], engine=engine)]
    found, _ = server_metrics(every, (0.0, 1.0), 0.0)
    assert [one.engine for one in found.engines] == ["0", "2", "10"]


def test_aborted_requests_are_found_by_their_reason() -> None:
    every = samples([1.0, 4.0], metric="vllm:request_success_total{finished_reason=abort}")
    every += samples([0.0, 2.0], metric="vllm:request_success_total{finished_reason=error}")
    every += samples([0.0, 9.0], metric="vllm:request_success_total{finished_reason=length}")
    assert server_metrics(every, (0.0, 1.0), 0.0)[0].aborted == 5.0


def test_a_run_has_its_servers_figures() -> None:
    run = merge_folder(sound(requests_per_client=96)).runs[0]
    server = run.server
    assert server is not None
    assert (server.servers, len(server.engines), server.failed_scrapes) == (2, 8, 0)
    assert server.acceptance_rate == pytest.approx(0.9)
    assert server.mean_acceptance_length == pytest.approx(1.9)
    assert server.prefix_hit_share == pytest.approx(0.01)
    assert server.cache_config["block_size"] == "16"
    assert not server.cache_configs_differ
    tokens = run.whole.output_tokens_per_s * run.whole.seconds
    assert server.generation_tokens == pytest.approx(tokens, rel=1e-6)
    assert run.steady is not None
    in_window = run.steady.output_tokens_per_s * run.steady.seconds
    assert sum(one.generation_tokens for one in server.engines) == pytest.approx(in_window, rel=0.05)
    assert sum(one.running_mean for one in server.engines) == pytest.approx(16, rel=0.1)
    assert server.timeline.running[2:-4] == pytest.approx([16.0] * len(server.timeline.running[2:-4]), abs=3)
    assert len(server.timeline.at) == len(server.timeline.kv_max)


def test_faults_of_servers_show_where_they_are() -> None:
    starved = merge_folder(
        sound(requests_per_client=96, starved_engine=2, choked_engine=1, foreign_tokens=0.5, preemptions=3)
    ).runs[0]
    server = starved.server
    assert server is not None
    assert server.engines[2].generation_tokens == 0.0
    assert server.engines[1].waiting_peak > 400
    assert server.engines[1].kv_peak == pytest.approx(0.996)
    assert server.generation_tokens == pytest.approx(
        1.5 * starved.whole.output_tokens_per_s * starved.whole.seconds, rel=1e-3
    )
    assert server.preemptions > 0


def test_a_restart_within_a_run_neither_adds_nor_takes_much() -> None:
    merged = merge_folder(sound(requests_per_client=96, engine_restart=True))
    plain = merge_folder(sound(requests_per_client=96))
    got, wanted = merged.runs[0].server, plain.runs[0].server
    assert got is not None
    assert wanted is not None
    assert all(one.generation_tokens >= 0 for one in got.engines)
    assert got.generation_tokens == pytest.approx(wanted.generation_tokens, rel=0.1)
    told = set(merged.remarks) - set(plain.remarks)
    assert any("10.0.1.1:8000" in remark for remark in told)
    assert not any("10.0.1.2:8000" in remark for remark in told)


def test_cache_configurations_that_differ_are_seen() -> None:
    run = merge_folder(sound(different_cache_configs=True)).runs[0]
    assert run.server is not None
    assert run.server.cache_configs_differ


def test_speculation_figures_of_clients_are_never_added_up(tmp_path: Path) -> None:
    from tests.fleet.bench.merge.folders import client, edit

    folder = copied(tmp_path, with_metrics=False)
    for number in range(4):
        edit(
            client(folder, number),
            lambda content: content.update(spec_decode_num_drafts=1000, spec_decode_acceptance_rate=90.0),
        )
    merged = merge_folder(folder)
    assert merged.runs[0].server is None
    assert len(merged.remarks) == len(merge_folder(sound(with_metrics=False)).remarks) + 1
