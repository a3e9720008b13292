"""A merged run against plain loops over its files, and what each trap of the files must not do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleet.bench.errors import BenchmarkError
from fleet.bench.measurement import Rates, Run
from fleet.bench.merge import merge_folder
from tests.fleet.bench.merge import naive
from tests.fleet.bench.merge.folders import RUN, client, copied, edit, sound, witness
from tests.support.rows import each_row

SIZE: dict[str, Any] = {"requests_per_client": 96, "fail_share": 0.06, "slo": (("ttft_ms", 220.0), ("tpot_ms", 16.5))}


@pytest.fixture(scope="module")
def folder() -> Path:
    return sound(**SIZE)


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return merge_folder(folder).runs[0]


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
        for field, q in (("p50", 50), ("p90", 90), ("p99", 99), ("p999", 99.9), ("max", 100)):
            assert getattr(got, field) == pytest.approx(np.percentile(ms, q), rel=1e-6), (name, field)
        assert (got.count, got.mean) == (len(ms), pytest.approx(ms.mean()))
        assert got.curve == pytest.approx(np.percentile(ms, range(101)), rel=1e-6)


def test_chunks_are_not_tokens(run: Run, found: list[naive.Request]) -> None:
    """With 1.9 tokens a chunk, gaps over tokens is half a gap: a merge that took chunks for tokens would not be near it."""
    assert run.latencies.tpot is not None
    assert run.latencies.itl is not None
    assert run.latencies.itl.p50 / run.latencies.tpot.p50 == pytest.approx(1.9, rel=0.05)
    assert run.latencies.itl.count < 0.6 * sum(one.outputs for one in found)


def test_goodput_counts_failed_requests_as_bad(run: Run, found: list[naive.Request]) -> None:
    good = [one for one in found if one.ttft <= 0.220 and sum(one.itls) / (one.outputs - 1) <= 0.0165]
    assert run.goodput is not None
    assert run.goodput.share == pytest.approx(len(good) / (4 * 96))
    assert run.steady is not None
    _, _, done = naive.tokens(good, run.steady.began, run.steady.ended)
    assert run.goodput.requests_per_s * run.steady.seconds == pytest.approx(done, abs=1)
    assert merge_folder(sound()).runs[0].goodput is None


def test_the_articles_way_is_the_sum_of_what_clients_print(run: Run, folder: Path) -> None:
    results = [json.loads(client(folder, number).read_bytes()) for number in range(4)]
    assert run.summed.total_tokens_per_s == pytest.approx(sum(one["total_token_throughput"] for one in results))
    assert run.summed.output_tokens_per_s == pytest.approx(sum(one["output_throughput"] for one in results))


def test_clients(run: Run, found: list[naive.Request]) -> None:
    for one in run.clients:
        mine = [request for request in found if request.client == one.client]
        seconds = max(request.end for request in mine) - min(request.start for request in mine)
        tokens = sum(request.outputs + request.inputs for request in mine)
        assert (one.completed, one.connections) == (len(mine), 4)
        assert one.total_tokens_per_s == pytest.approx(tokens / seconds, rel=1e-6)
        assert one.chunks_per_s == pytest.approx(sum(1 + len(request.itls) for request in mine) / seconds, rel=1e-6)
        assert 0 < one.cpu_share_mean < 0.1


def test_a_saturated_client_shows_in_its_own_line() -> None:
    client = merge_folder(sound(saturated_client=2)).runs[0].clients[2]
    assert client.cpu_share_mean == pytest.approx(0.995)
    assert client.loop_lag_p99_ms > 100


def test_lengths_asked_against_got() -> None:
    run = merge_folder(sound(short_share=0.25)).runs[0]
    assert 0.15 * 192 < run.lengths.output_shorter < 0.35 * 192
    assert run.lengths.output_longer == 0
    assert merge_folder(sound()).runs[0].lengths.output_shorter == 0


def test_prompts_sent_twice_are_counted_over_all_runs() -> None:
    assert merge_folder(sound(repeats=2)).prompts.model_dump() == {"known": 2 * 4 * 48, "repeated": 0}
    assert merge_folder(sound(repeats=2, same_prompts_in_repeats=True)).prompts.repeated == 4 * 48
    assert merge_folder(sound(repeated_share=0.25)).prompts.repeated == 3 * 12


def test_a_run_of_one_wave_is_too_short() -> None:
    measurement = merge_folder(sound(requests_per_client=6, connections_per_client=4))
    run = measurement.runs[0]
    assert run.steady is None
    assert run.common is not None
    assert measurement.points[0].total_tokens_per_s.mean == run.common.total_tokens_per_s


def test_a_point_joins_its_repeats() -> None:
    merged = merge_folder(sound(repeats=3, points=2, repeat_noise=0.02))
    assert [point.connections for point in merged.points] == [16, 32]
    for point in merged.points:
        runs = [run for run in merged.runs if run.point == point.point]
        values = [run.steady.total_tokens_per_s for run in runs if run.steady is not None]
        assert len(values) == 3
        mean = float(np.mean(values))
        half = 4.302652729696142 * float(np.std(values, ddof=1)) / 3**0.5  # t, 2 degrees of freedom, 97.5 %
        got = point.total_tokens_per_s
        assert [got.mean, got.low, got.high] == pytest.approx([mean, mean - half, mean + half])
        assert got.variation == pytest.approx(float(np.std(values, ddof=1)) / mean)
        assert point.latencies.ttft.count == sum(run.latencies.ttft.count for run in runs)
        assert point.usd_per_million_tokens == pytest.approx(120.0 / 3600 / mean * 1e6)


def test_complete_runs_are_merged_and_the_others_named(tmp_path: Path) -> None:
    folder = copied(tmp_path, repeats=3)
    witness(folder, 2).unlink()
    client(folder, 3, "point-00-repeat-2").unlink()
    merged = merge_folder(folder)
    assert [run.name for run in merged.runs] == ["point-00-repeat-1"]
    assert [one.partition(":")[0] for one in merged.missing] == [RUN, "point-00-repeat-2"]
    dead = merge_folder(sound(repeats=2, fail_share=0.0)).runs
    assert len(dead) == 2
    with pytest.raises(BenchmarkError, match=f"{RUN}: all 48 requests failed"):
        merge_folder(sound(fail_all=True))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "client-001.json": lambda folder: client(folder).write_bytes(client(folder).read_bytes()[:5_000]),
    "client-002.json": lambda folder: edit(client(folder, 2), lambda one: one["ttfts"].pop()),
    "client-000.json": lambda folder: edit(client(folder, 0), lambda one: one.update(client="7")),
    "client-003.json": lambda folder: edit(client(folder, 3), lambda one: one["start_times"].__setitem__(0, -1.0)),
    "client-001.witness.json": lambda folder: edit(witness(folder), lambda one: one["prompt_hashes"].pop()),
    "client-002.witness.json": lambda folder: edit(witness(folder, 2), lambda one: one.update(schema=2)),
    "server-metrics.jsonl.gz": lambda folder: (folder / RUN / "server-metrics.jsonl.gz").write_bytes(b"\x1f\x8b"),
    "dcgm.json": lambda folder: (folder / "dcgm.json").write_text("{}"),
    "run.json": lambda folder: edit(folder / "run.json", lambda one: one.update(points=[])),
}


@each_row("name", DAMAGES)
def test_what_the_pod_does_not_write_is_refused_by_name(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = copied(tmp_path_factory.mktemp("damaged"))
    DAMAGES[name](folder)
    with pytest.raises(BenchmarkError, match=name):
        merge_folder(folder)


def test_a_folder_without_a_run_is_none(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"run\.json"):
        merge_folder(tmp_path)
