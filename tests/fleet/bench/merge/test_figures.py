"""A merged run against plain loops over its files, and what each trap of the files must not do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.bench.folder import AskedSlo
from fleet.bench.measurement import Rates, Run
from fleet.bench.merge import MergeOptions, merge_folder
from fleet.bench.merge.client_data import Floats
from fleet.bench.merge.statistics import in_file
from tests.fleet.bench.merge import naive
from tests.fleet.bench.merge.folders import RUN, client, copied, edit, sound, witness

SIZE: dict[str, Any] = {"requests_per_client": 96, "fail_share": 0.06}


@pytest.fixture(scope="module")
def folder() -> Path:
    return sound(**SIZE)


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return merge_folder(folder, MergeOptions(slo=AskedSlo(ttft_ms=220, tpot_ms=16.5))).runs[0]


@pytest.fixture(scope="module")
def found(folder: Path) -> list[naive.Request]:
    return naive.requests(folder / RUN)


def _same(rates: Rates | None, found: list[naive.Request], began: float, ended: float, slack: float = 1e-9) -> None:
    assert rates is not None
    assert rates.began == pytest.approx(began, abs=1e-5)
    assert rates.ended == pytest.approx(ended, abs=1e-5)
    inputs, outputs, done = naive.tokens(found, rates.began, rates.ended + slack)
    assert rates.input_tokens_per_s * rates.seconds == pytest.approx(inputs, rel=2e-4)
    assert rates.output_tokens_per_s * rates.seconds == pytest.approx(outputs, rel=2e-4)
    assert rates.requests_per_s * rates.seconds == pytest.approx(done, abs=1)
    assert rates.total_tokens_per_s == pytest.approx(rates.input_tokens_per_s + rates.output_tokens_per_s)


def test_windows_agree_with_plain_loops(run: Run, found: list[naive.Request]) -> None:
    firsts = [min(one.start for one in found if one.client == number) for number in range(4)]
    lasts = [max(one.end for one in found if one.client == number) for number in range(4)]
    _same(run.whole, found, min(firsts), max(lasts), slack=1e-4)
    _same(run.common, found, max(firsts), min(lasts))
    assert run.start_skew_s == pytest.approx(max(firsts) - min(firsts), abs=1e-5)
    moments = sorted([one.start for one in found] + [one.end for one in found])
    full = [moment for moment in moments if naive.in_flight(found, moment) >= 0.95 * 16]
    left = next(moment for moment in moments if moment > full[-1])
    median = float(np.median([one.e2e for one in found]))
    _same(run.steady, found, max(full[0], max(firsts)) + median, min(left, min(lasts)))
    assert run.steady is not None
    assert run.steady.total_tokens_per_s > run.whole.total_tokens_per_s
    mean = np.mean([naive.in_flight(found, at) for at in np.linspace(run.steady.began, run.steady.ended, 800)])
    assert run.in_flight_mean_steady == pytest.approx(mean, rel=0.01)


def test_whole_has_every_token_of_the_successful_and_nothing_of_the_failed(
    run: Run, found: list[naive.Request]
) -> None:
    outputs, inputs = sum(one.outputs for one in found), sum(one.inputs for one in found)
    assert run.whole.output_tokens_per_s * run.whole.seconds == pytest.approx(outputs, rel=1e-12)
    assert run.whole.input_tokens_per_s * run.whole.seconds == pytest.approx(inputs, rel=1e-12)
    assert run.completed == len(found)
    assert run.completed + run.failed == 4 * 96
    assert run.failed > 0
    assert sum(error.count for error in run.errors) == run.failed
    assert {error.kind for error in run.errors} >= {"connection", "http 503", "timeout", "other"}
    assert sum(run.timeline.output_tokens_per_s) == pytest.approx(outputs)
    assert sum(run.timeline.total_tokens_per_s) == pytest.approx(outputs + inputs)


def test_percentiles_are_numpys_over_all_requests(run: Run, found: list[naive.Request]) -> None:
    values = {
        "ttft": [one.ttft for one in found],
        "itl": [gap for one in found for gap in one.itls],
        "e2e": [one.e2e for one in found],
        "tpot": [sum(one.itls) / (one.outputs - 1) for one in found if one.outputs > 1],
    }
    for name, seconds in values.items():
        got = getattr(run.latencies, name)
        ms = np.array(seconds) * 1e3
        for field, q in (("p10", 10), ("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("p999", 99.9)):
            assert getattr(got, field) == pytest.approx(np.percentile(ms, q), rel=1e-9), (name, field)
        assert (got.count, got.min, got.max) == (len(ms), pytest.approx(ms.min()), pytest.approx(ms.max()))
        assert (got.mean, got.std) == (pytest.approx(ms.mean()), pytest.approx(ms.std()))
        assert sum(got.histogram.counts) == len(ms)
        edges = got.histogram.edges
        assert len(edges) == len(got.histogram.counts) + 1
        assert list(edges) == sorted(edges)
        assert edges[0] <= ms.min() * (1 + 1e-12)
        assert edges[-1] >= ms.max() * (1 - 1e-12)


def test_chunks_are_not_tokens(run: Run, found: list[naive.Request]) -> None:
    """With 1.9 tokens a chunk, gaps over tokens is half a gap: a merge that took chunks for tokens would not be near it."""
    assert run.latencies.tpot is not None
    assert run.latencies.itl is not None
    assert run.latencies.itl.p50 / run.latencies.tpot.p50 == pytest.approx(1.9, rel=0.05)
    assert run.latencies.itl.count < 0.6 * sum(one.outputs for one in found)


def test_goodput_counts_failed_requests_as_bad(run: Run, found: list[naive.Request]) -> None:
    good = [one for one in found if one.ttft <= 0.220 and sum(one.itls) / (one.outputs - 1) <= 0.0165]
    assert run.goodput is not None
    assert run.goodput.requests == len(good)
    assert run.goodput.share == pytest.approx(len(good) / (4 * 96))
    assert run.steady is not None
    _, outputs, done = naive.tokens(good, run.steady.began, run.steady.ended)
    assert run.goodput.output_tokens_per_s * run.steady.seconds == pytest.approx(outputs, rel=1e-3)
    assert run.goodput.requests_per_s * run.steady.seconds == pytest.approx(done, abs=1)


def test_limits_are_the_asked_ones_where_none_are_given() -> None:
    asked = sound(slo=(("ttft_ms", 220.0), ("tpot_ms", 16.5)))
    wanted = merge_folder(sound(), MergeOptions(slo=AskedSlo(ttft_ms=220, tpot_ms=16.5))).runs[0].goodput
    assert merge_folder(asked).runs[0].goodput == wanted
    assert merge_folder(asked, MergeOptions(slo=AskedSlo(e2e_ms=1))).runs[0].goodput != wanted
    assert merge_folder(sound()).runs[0].goodput is None
    assert merge_folder(sound(slo=())).runs[0].goodput is None


def test_the_articles_way_is_the_sum_of_what_clients_print(run: Run, folder: Path) -> None:
    results = [json.loads(client(folder, number).read_bytes()) for number in range(4)]
    assert run.summed.total_tokens_per_s == pytest.approx(sum(one["total_token_throughput"] for one in results))
    assert run.summed.output_tokens_per_s == pytest.approx(sum(one["output_throughput"] for one in results))
    assert run.summed.requests_per_s == pytest.approx(sum(one["request_throughput"] for one in results))


def test_the_sum_overstates_where_clients_do_not_overlap() -> None:
    late = merge_folder(sound(late_client=3, late_seconds=4.0)).runs[0]
    assert late.common is not None
    assert late.summed.total_tokens_per_s > 1.25 * late.whole.total_tokens_per_s
    assert late.start_skew_s == pytest.approx(4.0, abs=0.05)


def test_clients_and_pods(run: Run, found: list[naive.Request]) -> None:
    for one in run.clients:
        mine = [request for request in found if request.client == one.client]
        seconds = max(request.end for request in mine) - min(request.start for request in mine)
        assert one.completed == len(mine)
        assert one.output_tokens_per_s == pytest.approx(sum(request.outputs for request in mine) / seconds, rel=1e-6)
        assert one.chunks_per_s == pytest.approx(sum(1 + len(request.itls) for request in mine) / seconds, rel=1e-6)
        assert one.connections == 4
        assert one.ttft_p50_ms == pytest.approx(np.median([request.ttft for request in mine]) * 1e3)
        assert (one.pod, one.node) == (one.client // 2, f"bench-node-{one.client // 2}")
        assert one.cpu_share_mean is not None
        assert 0 < one.cpu_share_mean < 0.1
    assert run.pod_cores == (4.0, 4.0)
    assert all(0 < peak < 0.2 for peak in run.pod_cpu_peak)


def test_a_saturated_client_shows_in_its_own_line_and_its_pods() -> None:
    run = merge_folder(sound(saturated_client=2)).runs[0]
    assert run.clients[2].cpu_share_mean == pytest.approx(0.995)
    assert run.clients[2].loop_lag_p99_ms is not None
    assert run.clients[2].loop_lag_p99_ms > 100
    assert run.pod_cpu_peak[1] > 0.99 > run.pod_cpu_peak[0]


def test_a_pods_last_part_of_a_second_is_not_added_to_the_second_before(tmp_path: Path) -> None:
    folder = copied(tmp_path)

    def ends_early(content: dict[str, Any]) -> None:
        samples = content["samples"]
        samples["at"][-1] = samples["at"][-2] + 0.3
        samples["cpu_share"] = [0.4] * len(samples["at"])

    for number in range(4):
        edit(witness(folder, number), ends_early)
    assert merge_folder(folder).runs[0].pod_cpu_peak == pytest.approx((0.8, 0.8))


def test_sending_the_first_requests_is_no_peak_of_a_pod(tmp_path: Path) -> None:
    folder = copied(tmp_path)

    def begins_busy(content: dict[str, Any]) -> None:
        shares = content["samples"]["cpu_share"]
        content["samples"]["cpu_share"] = [0.9] + [0.3] * (len(shares) - 1)

    for number in range(4):
        edit(witness(folder, number), begins_busy)
    assert merge_folder(folder).runs[0].pod_cpu_peak == pytest.approx((0.6, 0.6))


def test_lengths_asked_against_got() -> None:
    run = merge_folder(sound(short_share=0.25)).runs[0]
    assert run.lengths.asked_known
    assert 0.15 * 192 < run.lengths.output_shorter < 0.35 * 192
    assert run.lengths.output_longer == 0
    assert merge_folder(sound()).runs[0].lengths.output_shorter == 0


def test_prompts_sent_twice_are_counted_over_all_runs() -> None:
    assert merge_folder(sound(repeats=2)).prompts.model_dump() == {"known": 2 * 4 * 48, "repeated": 0}
    assert merge_folder(sound(repeats=2, same_prompts_in_repeats=True)).prompts.repeated == 4 * 48
    assert merge_folder(sound(repeated_share=0.25)).prompts.repeated == 3 * 12
    assert merge_folder(sound(with_witness=False)).prompts.known == 0


def test_a_run_that_never_arrives_says_so(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    for number in range(4):
        edit(client(folder, number), lambda content: content.update(max_concurrency=None, request_rate=2.0))
    run = merge_folder(folder).runs[0]
    assert run.steady is None
    assert run.connections == 192
    assert re.findall(r"\d+", run.steady_why) == ["16", "95", "192"]
    assert run.common is not None
    point = merge_folder(folder)
    assert point.points[0].total_tokens_per_s.mean == run.common.total_tokens_per_s
    assert any("common window" in remark for remark in point.remarks)


def test_a_run_of_one_wave_is_too_short() -> None:
    run = merge_folder(sound(requests_per_client=6, connections_per_client=4)).runs[0]
    assert run.steady is None
    assert "median request" in run.steady_why
    assert run.batches is None


def test_drift_is_the_slope_over_the_window() -> None:
    still = merge_folder(sound(requests_per_client=192)).runs[0].batches
    slower = merge_folder(sound(requests_per_client=192, drift=1.0)).runs[0].batches
    assert still is not None
    assert slower is not None
    assert abs(still.drift_share) < 0.1
    assert -0.8 < slower.drift_share < -0.25


def test_a_point_joins_its_repeats() -> None:
    merged = merge_folder(sound(repeats=3, points=2, repeat_noise=0.02))
    assert [point.connections for point in merged.points] == [16, 32]
    for point in merged.points:
        runs = [run for run in merged.runs if run.name in point.runs]
        values = [run.steady.total_tokens_per_s for run in runs if run.steady is not None]
        assert len(values) == 3
        mean = float(np.mean(values))
        half = 4.302652729696142 * float(np.std(values, ddof=1)) / 3**0.5  # t, 2 degrees of freedom, 97.5 %
        got = point.total_tokens_per_s
        assert [got.mean, got.low, got.high] == pytest.approx([mean, mean - half, mean + half])
        assert got.variation == pytest.approx(float(np.std(values, ddof=1)) / mean)
        assert point.latencies.ttft.count == sum(run.latencies.ttft.count for run in runs)
        assert point.total_tokens_per_s_per_node == pytest.approx(mean / 2)
        assert point.usd_per_million_tokens == pytest.approx(120.0 / 3600 / mean * 1e6)
        assert point.usd_per_million_output_tokens == pytest.approx(120.0 / 3600 / point.output_tokens_per_s.mean * 1e6)


def test_many_repeats_gaps_are_kept_in_a_file_and_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sound(repeats=3, repeat_noise=0.02)
    kept = merge_folder(folder)
    filed: list[int] = []

    def counted(gaps: Sequence[Floats]) -> list[Floats]:
        filed.append(len(gaps))
        return in_file(gaps)

    monkeypatch.setattr("fleet.bench.merge.run_figures.GAPS_IN_MEMORY", 1)
    monkeypatch.setattr("fleet.bench.merge.run_figures.in_file", counted)
    assert merge_folder(folder) == kept
    assert filed == [4, 4], "the first repeat's gaps are below the limit"


def test_without_room_for_a_file_gaps_stay_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = sound(repeats=3, repeat_noise=0.02)
    kept = merge_folder(folder)
    monkeypatch.setattr("fleet.bench.merge.run_figures.GAPS_IN_MEMORY", 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert merge_folder(folder) == kept


def test_one_repeat_has_no_interval() -> None:
    point = merge_folder(sound()).points[0]
    assert point.total_tokens_per_s.low is None
    assert point.total_tokens_per_s.variation is None


def test_the_merge_of_a_folder_is_always_the_same(folder: Path) -> None:
    assert merge_folder(folder) == merge_folder(folder)


def test_clients_that_have_a_witness_use_it_even_where_the_monotonic_clocks_are_far_apart(folder: Path) -> None:
    boots = []
    for number in range(4):
        clock = json.loads(witness(folder, number).read_bytes())["clock"]
        boots.append(clock["wall"] - clock["perf_counter"])
    assert abs(boots[0] - boots[3]) > 1000, "the folder has two nodes"
    run = merge_folder(folder).runs[0]
    assert (run.clock, run.start_skew_s < 0.1) == ("witness", True)
