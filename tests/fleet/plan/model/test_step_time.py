"""Tests of one engine in steady state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from facts.machines import H200
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model.calibration import calibration
from fleet.plan.model.deployment import Deployment, record_fleet
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.step_time import StepCosts, Wait, closed_loop, highest_rate, open_loop, step_costs

PARAMETERS = calibration().parameters
ARTICLE = named_workload("article")
ONE = record_fleet(1)
ARTICLES_WAIT = Wait(seconds=PARAMETERS.wait_s, share=PARAMETERS.wait_share)
NO_WAIT = Wait()
SIX_SECONDS = Wait(seconds=6.0)


def _costs(deployment: Deployment = ONE, workload: Workload = ARTICLE) -> StepCosts:
    return step_costs(deployment, workload, PARAMETERS, budget(deployment, workload))


def _engine(**options: object) -> Deployment:
    return Deployment(nodes=1, engine=replace(record_fleet(1).engine, **options))  # type: ignore[arg-type]


def test_a_request_of_the_article_takes_part_in_about_200_steps() -> None:
    assert _costs().steps_per_request == pytest.approx(1 + 383 / 1.9)


def test_requests_in_flight_are_running_or_waiting_as_little_says() -> None:
    load = closed_loop(_costs(), 250, SIX_SECONDS)
    waiting = load.requests_per_s * (6.0 + 0.5 * load.step_s)
    assert load.running + waiting == pytest.approx(250)
    own_s = _costs().prompt_s
    assert load.between_s == pytest.approx(load.step_s - own_s / _costs().steps_per_request)
    assert load.first_token_s == pytest.approx(6.0 + 0.5 * load.step_s + load.between_s + own_s)
    decoding_s = (_costs().steps_per_request - 1) * load.between_s
    assert load.seconds_per_request == pytest.approx(load.first_token_s + decoding_s)


def test_a_step_is_the_sum_of_its_parts() -> None:
    costs = _costs()
    load = closed_loop(costs, 250, SIX_SECONDS)
    arrivals = load.requests_per_s * load.step_s
    decoding = load.running - arrivals
    parts = costs.fixed_s + load.running * costs.sequence_s + decoding * costs.tokens_s + arrivals * costs.prompt_s
    assert load.step_s == pytest.approx(parts)


def test_beyond_the_captured_graphs_every_step_pays_for_launching() -> None:
    captured, beyond = closed_loop(_costs(), 250, SIX_SECONDS), closed_loop(_costs(), 300, NO_WAIT)
    assert captured.captured
    assert not beyond.captured
    assert beyond.running > _costs().captured_sequences == 256
    wider = closed_loop(_costs(_engine(captured_tokens=1024)), 300, NO_WAIT)
    assert wider.captured
    assert wider.requests_per_s > beyond.requests_per_s


def test_mtp_2_runs_outside_the_captured_graphs_where_mtp_1_fits() -> None:
    wait = ARTICLES_WAIT
    assert closed_loop(_costs(), 250, wait).captured
    assert not closed_loop(_costs(_engine(speculative_tokens=2)), 250, wait).captured


@pytest.mark.parametrize(
    ("options", "limit", "by"),
    [
        ({"max_num_seqs": 40}, 40, "max_num_seqs"),
        ({"kv_cache_dtype": "auto", "max_num_seqs": 8_192}, 133, "cache memory"),
        ({}, 346, "cache memory"),
        ({"max_num_batched_tokens": 1024}, 1024 / (768 / (1 + 383 / 1.9) + 2), "max_num_batched_tokens"),
    ],
)
def test_an_engine_runs_no_more_than_its_tightest_limit(options: dict[str, int], limit: float, by: str) -> None:
    costs = _costs(_engine(**options))
    assert costs.running_limit == pytest.approx(limit)
    assert costs.limited_by == by
    full = closed_loop(costs, 5_000, NO_WAIT)
    assert full.full
    assert full.running == pytest.approx(limit)
    assert full.first_token_s > 10


def test_a_gpu_with_half_the_bandwidth_and_arithmetic_takes_longer_for_both() -> None:
    b200, h200 = _costs(), _costs(replace(_engine(data_parallel=1), gpu=H200, gpus_per_node=1))
    assert h200.tokens_s / b200.tokens_s == pytest.approx(4.5 / 1.98)
    assert h200.sequence_s / b200.sequence_s == pytest.approx(8 / 4.8)


def test_long_prompts_pay_for_attention_to_what_came_before() -> None:
    fleet = _engine(max_model_len_tokens=131_072)
    short, long = (
        _costs(fleet, Workload(input_tokens=Lengths.exactly(tokens), output_tokens=Lengths.exactly(500)))
        for tokens in (1_000, 100_000)
    )
    assert 1.3 < long.prompt_s / 100 / short.prompt_s < 1.6
    assert long.sequence_s > 3 * short.sequence_s


def test_a_shared_prefix_saves_whole_blocks_and_nothing_below_two() -> None:
    fleet = _engine(max_model_len_tokens=16_384)

    def prompt_s(shared: int) -> float:
        work = Workload(
            input_tokens=Lengths.exactly(8_000), output_tokens=Lengths.exactly(100), shared_prefix_tokens=shared
        )
        return _costs(fleet, work).prompt_s

    assert prompt_s(512) == prompt_s(0) == prompt_s(3_167)
    assert prompt_s(3_168) / prompt_s(0) == pytest.approx((8_000 - 1_584) / 8_000)


def test_the_wait_grows_with_the_load_up_to_the_measured_one() -> None:
    assert ARTICLES_WAIT.times(0.5) == Wait(seconds=PARAMETERS.wait_s / 2, share=PARAMETERS.wait_share / 2)
    assert ARTICLES_WAIT.times(4) == ARTICLES_WAIT
    assert closed_loop(_costs(), 250, ARTICLES_WAIT.times(0)) == closed_loop(_costs(), 250, NO_WAIT)


def test_short_requests_wait_for_a_share_of_their_time_and_slow_ones_for_seconds() -> None:
    def before_and_in_engine_s(answer: int) -> tuple[float, float]:
        work = Workload(input_tokens=Lengths.exactly(100), output_tokens=Lengths.exactly(answer))
        load = closed_loop(_costs(_engine(max_model_len_tokens=4_096), work), 250, ARTICLES_WAIT)
        before_s = load.before_first_step_s - 0.5 * load.step_s
        return before_s, load.seconds_per_request - before_s

    for answer in (1, 20, 100):
        before_s, inside_s = before_and_in_engine_s(answer)
        assert before_s == pytest.approx(PARAMETERS.wait_share * inside_s)
        assert before_s < PARAMETERS.wait_s
    before_s, inside_s = before_and_in_engine_s(2_000)
    assert before_s == pytest.approx(PARAMETERS.wait_s)
    assert before_s < PARAMETERS.wait_share * inside_s


def test_a_long_prompt_takes_a_step_for_each_chunk_of_the_batch() -> None:
    fleet = _engine(max_model_len_tokens=131_072)
    for tokens, chunks in ((0, 1), (768, 1), (16_384, 1), (16_385, 2), (120_000, 8)):
        work = Workload(input_tokens=Lengths.exactly(tokens), output_tokens=Lengths.exactly(384))
        costs = _costs(fleet, work)
        assert costs.prompt_steps == chunks
        assert costs.steps_per_request == pytest.approx(chunks + 383 / 1.9)
        alone = closed_loop(costs, 1, NO_WAIT)
        assert alone.prefill_s == pytest.approx(chunks * alone.between_s + costs.prompt_s)


def test_more_than_the_highest_rate_is_refused_with_it() -> None:
    highest = highest_rate(_costs())
    with pytest.raises(ValueError, match=f"{highest:.4g} .* 50"):
        open_loop(_costs(), 50, SIX_SECONDS, 250)
    assert open_loop(_costs(), highest * 0.9999, SIX_SECONDS, 250).captured


workloads = st.builds(
    lambda prompt, answer: Workload(input_tokens=Lengths.exactly(prompt), output_tokens=Lengths.exactly(answer)),
    st.integers(0, 1_500),
    st.integers(1, 1_000),
)


@given(workload=workloads, in_flight=st.floats(0.01, 250))
def test_a_closed_loop_and_its_rate_as_an_open_loop_are_the_same_engine(workload: Workload, in_flight: float) -> None:
    costs = _costs(workload=workload)
    closed = closed_loop(costs, in_flight, ARTICLES_WAIT.times(in_flight / 250))
    assume(not closed.full)
    opened = open_loop(costs, closed.requests_per_s, ARTICLES_WAIT, 250)
    assert opened.running == pytest.approx(closed.running, rel=1e-6)
    assert opened.in_flight <= closed.in_flight * (1 + 1e-6)


@given(workload=workloads, in_flight=st.floats(0.01, 249), more=st.floats(1.0001, 4))
def test_more_in_flight_never_answers_fewer_up_to_the_measured_load(
    workload: Workload, in_flight: float, more: float
) -> None:
    costs = _costs(workload=workload)
    further = min(250.0, in_flight * more)
    here = closed_loop(costs, in_flight, ARTICLES_WAIT.times(in_flight / 250))
    there = closed_loop(costs, further, ARTICLES_WAIT.times(further / 250))
    assert 0 < here.requests_per_s <= there.requests_per_s * (1 + 1e-9)
    assert there.step_s >= here.step_s * (1 - 1e-9)
    assert here.running <= costs.running_limit


def test_an_engine_without_captured_graphs_has_a_highest_rate_too() -> None:
    eager, captured = _costs(_engine(captured_tokens=0)), _costs()
    assert 0 < highest_rate(eager) < highest_rate(captured)
    load = open_loop(eager, 0.9 * highest_rate(eager), SIX_SECONDS, 250)
    assert not load.captured
