"""Tests of whole answers: the published rows, their intervals, and what has to hold for any question."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import figures
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model.deployment import Deployment, EngineShape, OfferedLoad, measured_load, record_fleet
from fleet.plan.model.estimates import Estimate
from fleet.plan.model.measured import FITTED_LOADS, PHASES
from fleet.plan.model.performance import ContextTooShortError, Performance, estimate
from tests.fleet.plan.model import trials
from tests.fleet.plan.model.published import Row, rows
from tests.support.rows import each_row

ROOT = Path(__file__).parents[4]
ARTICLE = named_workload("article")


def _record(nodes: int = 1) -> Performance:
    return estimate(record_fleet(nodes), ARTICLE, measured_load(nodes))


def _with(**options: object) -> Deployment:
    return Deployment(nodes=1, engine=replace(record_fleet(1).engine, **options))  # type: ignore[arg-type]


@each_row("row", [*rows("predicted"), *(row for row in rows("fitted") if row.metric == "ttft_ms")])
def test_the_interval_holds_every_published_row_that_was_not_fitted(row: Row) -> None:
    assert row.is_within
    assert row.predicted.high / row.predicted.low < 1.6


@each_row("row", rows("fitted"))
def test_fitted_rows_are_within_the_spread_of_their_readings(row: Row) -> None:
    assert abs(row.error_percent) < {"total_tokens_per_s": 1.5, "tpot_ms": 3.5, "ttft_ms": 25}[row.metric]


@each_row("row", rows("check"))
def test_what_was_never_meant_to_be_predicted_is_within_25_percent(row: Row) -> None:
    assert abs(row.error_percent) < 25


def test_8000_in_flight_bring_nothing_over_2000() -> None:
    crowded = estimate(record_fleet(1), ARTICLE, OfferedLoad(in_flight=8_000))
    gain = crowded.total_tokens_per_s.value / _record().total_tokens_per_s.value
    assert gain < 1.01
    assert gain == pytest.approx(
        1 + figures.published("phases.concurrency-8k").details["change_percent"] / 100, rel=0.03
    )
    assert crowded.limited_by == "cache memory"
    assert crowded.ttft_ms.value > 30_000


def test_the_h200_trial_fits_once_the_host_time_of_the_article_is_left_out() -> None:
    found = {reading.id: reading.ratio for reading in trials.first_trial()}
    assert found["250-quiet"] == pytest.approx(1, abs=0.1)
    assert found["128-quiet"] == pytest.approx(1, abs=0.1)
    assert found["250-as-fitted"] < 0.85


def test_five_draft_tokens_are_promised_no_more_than_one_at_the_low_end() -> None:
    assert _with_drafts(5).total_tokens_per_s.low < _with_drafts(1).total_tokens_per_s.value
    assert any("draft tokens" in reason for reason in _with_drafts(5).reasons)


def _with_drafts(tokens: int) -> Performance:
    return estimate(_with(speculative_tokens=tokens), ARTICLE, measured_load(1))


def test_the_articles_fleets_differ_from_nothing_measured_and_a_larger_one_does() -> None:
    assert {(_record(nodes).basis, _record(nodes).reasons) for nodes in (1, 2, 3, 4, 12)} == {("published", ())}
    beyond = _record(13)
    assert beyond.basis == "published"
    assert [reason.partition(":")[0] for reason in beyond.reasons] == ["nodes"]


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_latency_that_was_not_measured_has_a_wider_interval(nodes: int) -> None:
    answer, plain = (
        estimate(record_fleet(nodes, routing="inference-gateway"), ARTICLE, measured_load(nodes)),
        _record(nodes),
    )
    assert answer.reasons == ()
    assert _width(answer.tpot_ms) > 1.1 * _width(plain.tpot_ms)
    assert answer.kv_cache_peak_percent < plain.kv_cache_peak_percent / 2


@each_row(("nodes", "published_percent"), [(1, 73), (2, 73), (4, 75)])
def test_the_cache_is_as_full_after_a_burst_as_the_second_run_was(nodes: int, published_percent: float) -> None:
    assert _record(nodes).kv_cache_peak_percent == pytest.approx(published_percent, rel=0.05)


def test_gathered_tokens_make_larger_chunks_and_leave_the_throughput() -> None:
    plain, gathered = (
        replace(record_fleet(1), engine=replace(record_fleet(1).engine, speculative_tokens=0, stream_interval=interval))
        for interval in (1, 10)
    )
    streamed = Workload(input_tokens=Lengths.exactly(1_000), output_tokens=Lengths.exactly(250))
    each, tens = (estimate(fleet, streamed, OfferedLoad(in_flight=64)) for fleet in (plain, gathered))
    assert tens.total_tokens_per_s.value == each.total_tokens_per_s.value
    assert (each.tokens_per_chunk, tens.tokens_per_chunk) == (1, 10)
    assert any(reason.startswith("--stream-interval") for reason in tens.reasons)
    short = Workload(input_tokens=Lengths.exactly(1_000), output_tokens=Lengths.exactly(4))
    assert estimate(gathered, short, OfferedLoad(in_flight=64)).tokens_per_chunk == 3


def test_drafted_tokens_count_towards_a_chunk() -> None:
    fleet = replace(record_fleet(1), engine=replace(record_fleet(1).engine, stream_interval=2))
    gathered, plain = (estimate(one, ARTICLE, measured_load(1)) for one in (fleet, record_fleet(1)))
    assert gathered.tokens_per_chunk == 2 * plain.tokens_per_chunk


@pytest.mark.parametrize(
    ("figure", "change"),
    [
        ("phases.dp8", {"gpu_memory_utilization": 0.91}),
        ("phases.dp8-4096", {"gpu_memory_utilization": 0.91}),
        ("phases.dp8-4096", {"max_model_len_tokens": 4_352}),
        ("phases.tp8", {"max_num_seqs": 520}),
        ("phases.mtp1-092", {"gpu_memory_utilization": 0.91}),
    ],
)
def test_an_estimate_does_not_jump_where_a_measured_configuration_ends(figure: str, change: dict[str, float]) -> None:
    here = PHASES[figure]
    there = replace(here, engine=replace(here.engine, **change))  # type: ignore[arg-type]
    offered = FITTED_LOADS[here]
    rates = [estimate(fleet, ARTICLE, offered).total_tokens_per_s.value for fleet in (here, there)]
    assert rates[1] / rates[0] == pytest.approx(1, abs=0.015)


def test_beyond_a_measured_16_bit_cache_the_interval_holds_fewer_states_a_sequence() -> None:
    here = PHASES["phases.dp8-4096"]
    fleets = [
        replace(here, engine=replace(here.engine, gpu_memory_utilization=0.91, prefix_caching=caching))
        for caching in (True, False)
    ]
    as_seen, as_coded = (estimate(fleet, ARTICLE, measured_load(1)).total_tokens_per_s for fleet in fleets)
    assert as_seen.value < as_coded.value < as_seen.high


def test_more_than_two_nodes_span_what_the_rounded_row_may_have_been() -> None:
    one, many = (_record(nodes).total_tokens_per_s for nodes in (1, 12))
    assert _width(many) > _width(one) * 1.05


def test_every_departure_is_named_and_widens_the_interval() -> None:
    longer = Workload(input_tokens=Lengths.exactly(1_000), output_tokens=Lengths.exactly(500))
    there = estimate(record_fleet(1), longer, measured_load(1))
    assert [reason.partition(":")[0] for reason in there.reasons] == ["prompts", "answers"]
    both = estimate(record_fleet(1), longer, OfferedLoad(in_flight=500))
    assert both.reasons[-1].startswith("load: ")
    widths = [_width(one.total_tokens_per_s) for one in (_record(), there, both)]
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]


def _width(answer: Estimate) -> float:
    return answer.high / answer.low


def test_a_request_longer_than_the_context_is_refused_by_how_much() -> None:
    long = Workload(input_tokens=Lengths.exactly(3_000), output_tokens=Lengths.exactly(500))
    with pytest.raises(ContextTooShortError, match=r"3,500 tokens, 940 .*--max-model-len 2,560"):
        estimate(record_fleet(1), long, measured_load(1))


def test_offered_requests_come_back_as_they_were_offered() -> None:
    answer = estimate(record_fleet(8), ARTICLE, OfferedLoad(requests_per_s=500))
    assert (answer.requests_per_s.low, answer.requests_per_s.high) == (500, 500)
    assert answer.total_tokens_per_s.value == 500 * 1152
    assert answer.in_flight < 16_000
    assert answer.tpot_ms.value < _record(8).tpot_ms.value


def test_the_record_can_hit_no_prefix_and_says_from_where_on_it_could() -> None:
    assert _record().shortest_prompt_with_cache_hit_tokens == 3_169
    off = estimate(_with(prefix_caching=False), ARTICLE, measured_load(1))
    assert off.shortest_prompt_with_cache_hit_tokens is None


def test_near_the_end_of_captured_graphs_the_interval_holds_the_fall_beyond_it() -> None:
    near, beyond = (
        estimate(record_fleet(1), ARTICLE, OfferedLoad(in_flight=users)).total_tokens_per_s for users in (2_600, 2_700)
    )
    assert beyond.value < near.value
    assert near.low <= beyond.value <= near.high


lengths = st.tuples(st.integers(0, 1_500), st.integers(1, 1_000))
engines = st.builds(
    lambda context, sequences, drafts, dtype: replace(
        record_fleet(1).engine,
        max_model_len_tokens=context,
        max_num_seqs=sequences,
        speculative_tokens=drafts,
        kv_cache_dtype=dtype,
    ),
    st.integers(2_560, 131_072),
    st.integers(1, 2_048),
    st.integers(0, 1),
    st.sampled_from(["auto", "fp8_e4m3"]),
)


def _exactly(prompt: int, answer: int) -> Workload:
    return Workload(input_tokens=Lengths.exactly(prompt), output_tokens=Lengths.exactly(answer))


@given(engine=engines, length=lengths, more=st.integers(1, 500), users=st.floats(1, 2_000))
def test_longer_prompts_or_answers_never_bring_more_requests(
    engine: EngineShape, length: tuple[int, int], more: int, users: float
) -> None:
    prompt, answer = length
    deployment, offered = (
        Deployment(nodes=1, engine=replace(engine, max_model_len_tokens=131_072)),
        OfferedLoad(in_flight=users),
    )
    here = estimate(deployment, _exactly(prompt, answer), offered).requests_per_s.value
    for longer in (_exactly(prompt + more, answer), _exactly(prompt, answer + more)):
        assert estimate(deployment, longer, offered).requests_per_s.value <= here * (1 + 1e-9)


@given(length=lengths, users=st.floats(1, 2_000), context=st.integers(2_560, 100_000), more=st.integers(1, 31_000))
def test_a_longer_context_than_needed_never_brings_more(
    length: tuple[int, int], users: float, context: int, more: int
) -> None:
    here, there = (
        estimate(_with(max_model_len_tokens=tokens), _exactly(*length), OfferedLoad(in_flight=users))
        for tokens in (context, context + more)
    )
    assert there.requests_per_s.value < here.requests_per_s.value


def test_the_planner_imports_nothing_heavy_and_no_other_room() -> None:
    program = (
        "import sys; from fleet.plan.model import performance;"
        "print(' '.join(sorted({'.'.join(name.split('.')[:n]) for name in sys.modules for n in (1, 2)})))"
    )
    forbidden = {"pulumi", "pydantic", "numpy", "settings", "infra", "workloads", "fleet.preview", "fleet.cli"}
    assert forbidden & set(_run(program).split()) == set()


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout
