"""What must hold of any requests, however they are spread over clients and windows."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.folder import Barrier, ClientSamples, Clock, Witness
from fleet.bench.merge.client_data import ClientData
from fleet.bench.merge.client_file import _offsets
from fleet.bench.merge.clocks import Clocks, lay
from fleet.bench.merge.layout import RunFiles
from fleet.bench.merge.run_clients import Client
from fleet.bench.merge.run_figures import Pool, Surroundings, run_figures
from fleet.bench.merge.statistics import distribution, in_file, percentile, ranked
from fleet.bench.merge.windows import Placed, in_flight_means, totals

Request = tuple[float, float, list[float], int, int]
"""Start, ttft, gaps, input tokens, output tokens (0: failed)."""

seconds = st.floats(0.001, 5.0)
requests = st.lists(
    st.tuples(st.floats(0.0, 20.0), seconds, st.lists(st.floats(0.0, 1.0), max_size=6), st.integers(1, 900), st.integers(0, 40)),
    min_size=1,
    max_size=24,
).filter(lambda rows: any(row[4] > 0 for row in rows))  # fmt: skip


def client_of(rows: Sequence[Request], number: int = 0, boot: float = 0.0) -> ClientData:
    good = [row for row in rows if row[4] > 0]
    counts = np.array([len(row[2]) for row in good], dtype=np.int64)
    gaps = np.array([gap for row in good for gap in row[2]], dtype=np.float64)
    ttft = np.array([row[1] for row in good])
    offsets, e2e = _offsets(ttft, counts, gaps)
    return ClientData(
        file=f"client-{number:03d}.json",
        metadata={},
        model="m",
        date=None,
        duration=1.0,
        requests=len(rows),
        max_concurrency=None,
        request_rate=inf,
        own_rates=(0.0, 0.0, 0.0),
        digest=b"",
        input_lens=np.array([row[3] for row in rows]),
        failures={"other": (len(rows) - len(good), "")} if len(good) < len(rows) else {},
        index=np.array([i for i, row in enumerate(rows) if row[4] > 0]),
        start=np.array([row[0] + boot for row in good]),
        ttft=ttft,
        e2e=e2e,
        input_tokens=np.array([row[3] for row in good]),
        output_tokens=np.array([row[4] for row in good]),
        chunks=counts + 1,
        chunk_offset=offsets,
        gaps=np.sort(gaps),
    )


def placed(rows: Sequence[Request]) -> Placed:
    data = client_of(rows)
    return Placed(data=data, start=data.start)


def witness_of(data: ClientData, number: int, wall_minus_monotonic: float) -> Witness:
    at = Clock(wall=1e9, perf_counter=1e9 - wall_minus_monotonic)
    later = Clock(wall=1e9 + 60, perf_counter=1e9 + 60 - wall_minus_monotonic)
    return Witness(
        client=number, pod=0, node=f"n{number}", program="p", seed=number, clock=at, clock_at_end=later,
        barrier=Barrier(ready_at=0, go_at=1e9, released_at=1e9), ended_at=1e9, loop_lag_p99_ms=1.0, open_files_limit=9,
        samples=ClientSamples(at=(), cpu_share=(), loop_lag_ms=(), open_files=()),
        prompt_hashes=("0" * 16,) * data.requests, asked_input_tokens=(1,) * data.requests,
        asked_output_tokens=(1,) * data.requests,
    )  # fmt: skip


@given(requests, st.lists(st.integers(0, 3), min_size=24, max_size=24))
def test_percentiles_do_not_depend_on_how_requests_are_split_over_clients(rows: list[Request], of: list[int]) -> None:
    parts = [[row for row, part in zip(rows, of, strict=False) if part == wanted] for wanted in range(4)]
    split, whole = Pool(), Pool()
    for part in parts:
        if any(row[4] > 0 for row in part):
            split.add(client_of(part))
    whole.add(client_of(rows))
    got, wanted = split.latencies(), whole.latencies()
    for name in ("ttft", "tpot", "itl", "e2e"):
        one, other = getattr(got, name), getattr(wanted, name)
        if other is None:
            assert one is None
            continue
        for field in ("count", "min", "p10", "p50", "p90", "p95", "p99", "p999", "max"):
            assert getattr(one, field) == getattr(other, field)
        assert one.mean == pytest.approx(other.mean)
        assert one.histogram.counts == other.histogram.counts


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=12), min_size=1, max_size=5), st.floats(0, 100))
def test_percentiles_of_several_arrays_are_numpys_of_all(parts: list[list[float]], q: float) -> None:
    every = [value for part in parts for value in part]
    arrays = [np.sort(np.array(part, dtype=np.float64)) for part in parts]
    if not every:
        assert distribution(arrays) is None
        return
    assert percentile(arrays, q) == pytest.approx(np.percentile(every, q), rel=1e-9, abs=1e-9)
    ordered = sorted(every)
    assert [ranked(arrays, rank) for rank in range(len(every))] == ordered


@given(st.lists(st.lists(st.floats(0, 1e4), max_size=12), min_size=1, max_size=5))
def test_values_in_a_file_are_the_same_values(parts: list[list[float]]) -> None:
    arrays = [np.sort(np.array(part, dtype=np.float64)) for part in parts]
    filed = in_file(arrays)
    assert [part.tolist() for part in filed] == [part.tolist() for part in arrays]
    assert distribution(filed) == distribution(arrays)


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=60))
def test_every_value_lies_in_the_histogram_once(values: list[float]) -> None:
    one = distribution([np.sort(np.array(values))])
    assert one is not None
    edges, counts = one.histogram.edges, one.histogram.counts
    assert len(edges) == len(counts) + 1
    assert list(edges) == sorted(edges)
    assert (edges[0], edges[-1], sum(counts)) == (min(values), max(values), len(values))


@given(requests)
def test_a_window_over_all_has_all_tokens(rows: list[Request]) -> None:
    sums = totals([placed(rows)], [-1.0, 1000.0])
    good = [row for row in rows if row[4] > 0]
    assert sums.output_tokens[0] == pytest.approx(sum(row[4] for row in good))
    assert sums.input_tokens[0] == sum(row[3] for row in good)
    assert sums.requests[0] == len(good)


@given(requests, requests)
def test_a_whole_run_has_all_tokens(one: list[Request], other: list[Request]) -> None:
    whole = _merged([one, other], [0.0, 12345.678])["whole"]
    assert isinstance(whole, dict)
    good = [row for row in one + other if row[4] > 0]
    assert whole["output_tokens_per_s"] * whole["seconds"] == pytest.approx(sum(row[4] for row in good))
    assert whole["input_tokens_per_s"] * whole["seconds"] == pytest.approx(sum(row[3] for row in good))
    assert whole["requests_per_s"] * whole["seconds"] == pytest.approx(len(good))


@given(requests, st.lists(st.floats(0.0, 60.0), max_size=12))
def test_any_partition_of_the_time_sums_to_the_whole(rows: list[Request], cuts: list[float]) -> None:
    edges = sorted({-1.0, 1000.0, *cuts})
    parts, whole = totals([placed(rows)], edges), totals([placed(rows)], [-1.0, 1000.0])
    for name in ("output_tokens", "input_tokens", "requests"):
        assert getattr(parts, name).sum() == pytest.approx(getattr(whole, name)[0])


@given(requests, st.floats(0.1, 10.0))
def test_requests_in_flight_times_seconds_are_the_requests_own_seconds(rows: list[Request], step: float) -> None:
    one = placed(rows)
    edges = np.arange(0.0, 60.0 + step, step)
    spent = float((in_flight_means([one], edges) * np.diff(edges)).sum())
    assert spent == pytest.approx(float((one.end - one.start).sum()), rel=1e-6, abs=1e-5)


def _run(clients: list[Client], clocks: Clocks) -> dict[str, object]:
    files = RunFiles(name="r", point=0, repeat=0, results=(), witnesses=(), pods=(), metrics=None, bare=False)
    around = Surroundings(pods=(), samples=(), gpus=(), gpu_problem=None, expected_gpus=None, slo=None)
    return run_figures(files, clients, clocks, around)[0].model_dump()


def _merged(parts: list[list[Request]], boots: list[float]) -> dict[str, object]:
    clients = [client_of(part, number, boot) for number, (part, boot) in enumerate(zip(parts, boots, strict=True))]
    witnesses = {
        data.file: witness_of(data, number, 1e9 - boot)
        for number, (data, boot) in enumerate(zip(clients, boots, strict=True))
    }
    clocks = lay(clients, witnesses)
    assert clocks.kind == "witness"
    return _run([Client(number=number, data=data) for number, data in enumerate(clients)], clocks)


def _close(got: object, wanted: object) -> None:
    if isinstance(wanted, dict):
        assert isinstance(got, dict)
        assert got.keys() == wanted.keys()
        for key in wanted:
            if key not in ("timeline", "batches", "histogram"):  # a chunk on a second's edge may fall on either side
                _close(got[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert isinstance(got, (list, tuple))
        for one, other in zip(got, wanted, strict=True):
            _close(one, other)
    elif isinstance(wanted, float):
        assert got == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    elif not isinstance(wanted, str):
        assert got == wanted


@given(requests, requests, st.floats(-1e6, 1e6))
def test_shifting_a_clients_clock_with_its_pair_changes_nothing(
    one: list[Request], other: list[Request], by: float
) -> None:
    before, after = _merged([one, other], [0.0, 0.0]), _merged([one, other], [0.0, by])
    for key in ("whole", "completed", "failed", "latencies", "lengths", "start_skew_s", "connections"):
        _close(after[key], before[key])


@given(requests, requests)
def test_failed_requests_never_count(rows: list[Request], failed: list[Request]) -> None:
    bad = [(start, ttft, gaps, inputs, 0) for start, ttft, gaps, inputs, _ in failed]
    alone, mixed = _merged([rows], [0.0]), _merged([rows + bad], [0.0])
    assert mixed["failed"] == len([row for row in rows if row[4] == 0]) + len(bad)
    for key in ("whole", "common", "completed", "latencies", "lengths", "timeline"):
        assert mixed[key] == alone[key]
