"""What must hold of any requests, however they are spread over clients and windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.folder import ClientSamples, Clock, Witness
from fleet.bench.merge.client_data import ClientData
from fleet.bench.merge.client_file import _offsets
from fleet.bench.merge.run_figures import Pool, Surroundings, run_figures
from fleet.bench.merge.windows import in_flight_means, totals

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
        number=number,
        connections=len(rows),
        requests=len(rows),
        own_rates=(0.0, 0.0),
        failures={"other": (len(rows) - len(good), "")} if len(good) < len(rows) else {},
        index=np.array([i for i, row in enumerate(rows) if row[4] > 0]),
        start=np.array([row[0] + boot for row in good]),
        ttft=ttft,
        e2e=e2e,
        input_tokens=np.array([row[3] for row in good]),
        output_tokens=np.array([row[4] for row in good]),
        chunks=counts + 1,
        chunk_offset=offsets,
        gaps=gaps.astype(np.float32),
    )


def witness_of(data: ClientData, boot: float) -> Witness:
    return Witness(
        client=data.number, program="p", seed=0, clock=Clock(wall=1e9, perf_counter=boot), loop_lag_p99_ms=1.0,
        samples=ClientSamples(at=(), cpu_share=(), loop_lag_ms=()), prompt_hashes=("0" * 16,) * data.requests,
        asked_input_tokens=(1,) * data.requests, asked_output_tokens=(1,) * data.requests,
    )  # fmt: skip


@given(requests, st.lists(st.integers(0, 3), min_size=24, max_size=24))
def test_percentiles_do_not_depend_on_how_requests_are_split_over_clients(rows: list[Request], of: list[int]) -> None:
    parts = [[row for row, part in zip(rows, of, strict=False) if part == wanted] for wanted in range(4)]
    split, whole = Pool(), Pool()
    for part in parts:
        if any(row[4] > 0 for row in part):
            split.add(client_of(part))
    whole.add(client_of(rows))
    _close(split.latencies().model_dump(), whole.latencies().model_dump())


@given(requests, requests)
def test_a_whole_run_has_all_tokens(one: list[Request], other: list[Request]) -> None:
    whole = _merged([one, other], 12345.678)["whole"]
    assert isinstance(whole, dict)
    good = [row for row in one + other if row[4] > 0]
    assert whole["output_tokens_per_s"] * whole["seconds"] == pytest.approx(sum(row[4] for row in good))
    assert whole["input_tokens_per_s"] * whole["seconds"] == pytest.approx(sum(row[3] for row in good))
    assert whole["requests_per_s"] * whole["seconds"] == pytest.approx(len(good))


@given(requests, st.lists(st.floats(0.0, 60.0), max_size=12))
def test_any_partition_of_the_time_sums_to_the_whole(rows: list[Request], cuts: list[float]) -> None:
    edges = sorted({-1.0, 1000.0, *cuts})
    parts, whole = totals([client_of(rows)], np.array(edges)), totals([client_of(rows)], np.array([-1.0, 1000.0]))
    for name in ("output_tokens", "input_tokens", "requests"):
        assert getattr(parts, name).sum() == pytest.approx(getattr(whole, name)[0])


@given(requests, st.floats(0.1, 10.0))
def test_requests_in_flight_times_seconds_are_the_requests_own_seconds(rows: list[Request], step: float) -> None:
    one = client_of(rows)
    edges = np.arange(0.0, 60.0 + step, step)
    spent = float((in_flight_means([one], edges) * np.diff(edges)).sum())
    assert spent == pytest.approx(float((one.end - one.start).sum()), rel=1e-6, abs=1e-5)


def _merged(parts: list[list[Request]], boot: float = 0.0) -> dict[str, object]:
    clients = [client_of(part, number, boot) for number, part in enumerate(parts)]
    around = Surroundings(
        name="r", point=0, repeat=0, witnesses=[witness_of(data, boot) for data in clients], samples=(), gpus=(),
        gpu_problem=None, slo=None,
    )  # fmt: skip
    return run_figures(clients, around)[0].model_dump()


def _close(got: object, wanted: object) -> None:
    if isinstance(wanted, dict):
        assert isinstance(got, dict)
        assert got.keys() == wanted.keys()
        for key in wanted:
            if key != "timeline":  # a chunk on a second's edge may fall on either side
                _close(got[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert isinstance(got, (list, tuple))
        for one, other in zip(got, wanted, strict=True):
            _close(one, other)
    elif isinstance(wanted, float):
        assert got == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    elif not isinstance(wanted, str):
        assert got == wanted


@given(requests, requests, st.floats(0, 1e6))
def test_when_the_node_booted_changes_nothing(one: list[Request], other: list[Request], boot: float) -> None:
    before, after = _merged([one, other]), _merged([one, other], boot)
    for key in ("whole", "completed", "failed", "latencies", "lengths", "connections"):
        _close(after[key], before[key])


@given(requests, requests)
def test_failed_requests_never_count(rows: list[Request], failed: list[Request]) -> None:
    bad = [(start, ttft, gaps, inputs, 0) for start, ttft, gaps, inputs, _ in failed]
    alone, mixed = _merged([rows]), _merged([rows + bad])
    assert mixed["failed"] == len([row for row in rows if row[4] == 0]) + len(bad)
    for key in ("whole", "common", "completed", "latencies", "lengths", "timeline"):
        assert mixed[key] == alone[key]
