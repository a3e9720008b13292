"""The planner's verdict on prefill apart from decode: against measured parts, and for which workloads it says what."""

from __future__ import annotations

from typing import Any

import pytest

from facts import ledger
from facts.machines import H200
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.asked import Asked
from fleet.plan.model.deployment import Deployment, EngineShape
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.roofline import HOPPER_FACTOR, known
from fleet.plan.planning import plan
from fleet.plan.prefill_apart import PrefillApart, engine_times, prefill_apart
from fleet.plan.question.asking import question_of
from tests.support.rows import each_row

MEASURED = ledger.section("disaggregation", "measured")
LONG_PROMPTS = Workload(input_tokens=Lengths.exactly(5_000), output_tokens=Lengths.exactly(250))
ONE_H200 = Deployment(
    nodes=1,
    gpu=H200,
    gpus_per_node=1,
    reading="engine",
    engine=EngineShape(
        data_parallel=1,
        max_model_len_tokens=8_192,
        max_num_seqs=512,
        max_num_batched_tokens=16_384,
        prefix_caching=False,
        speculative_tokens=0,
        captured_tokens=1_024,
    ),
)


def verdict(**options: Any) -> PrefillApart:
    found = plan(question_of(Asked(**options))).prefill_apart
    assert found is not None
    return found


@each_row("workload, name", [(named_workload("article"), "article"), (LONG_PROMPTS, "5000-250")])
def test_prompts_alone_take_the_time_measured_on_an_h200(workload: Workload, name: str) -> None:
    times = engine_times(ONE_H200, workload, known(ONE_H200).engine, 64)
    measured = 1 / MEASURED["prefill"][name]["requests_per_s"]
    assert measured / HOPPER_FACTOR < times.prefill_s < measured * HOPPER_FACTOR


def test_decode_alone_takes_the_time_measured_on_an_h200() -> None:
    article = named_workload("article")
    assert budget(ONE_H200, article).running_limit(article) > 256
    times = engine_times(ONE_H200, article, known(ONE_H200).engine, 64)
    measured = MEASURED["decode"]["article-64"]
    assert times.decode_step_s(64) == pytest.approx(measured["tpot_ms"] / 1e3, rel=0.15)
    # 256 in flight, of which those that waited 7 s for prefill did not run.
    full = MEASURED["decode"]["article-256"]
    rate = full["total"] / article.tokens_per_request
    assert times.decode_step_s(256 - 7 * rate) == pytest.approx(full["tpot_ms"] / 1e3, rel=0.15)


def test_on_h200_the_article_s_workload_wants_halves_and_long_prompts_most_of_the_node() -> None:
    article = verdict(users=1_000, machine="a3-ultragpu-8g", sized_as="engine")
    long_prompts = verdict(requests_per_second=20, isl=5_000, osl=250, machine="a3-ultragpu-8g")
    assert (article.best.apart.prefill, long_prompts.best.apart.prefill) == (4, 7)
    assert article.ratio.low < 1.2 < article.ratio.high * 1.3
    assert article.splits[1].gain.high < 0.9, "the article's two for prefill and six for decode"
    assert long_prompts.splits[1].gain.high < 0.6


def test_no_workload_is_promised_tokens_that_the_interval_does_not_hold() -> None:
    for isl, osl in ((200, 800), (768, 384), (5_000, 250), (8_000, 1_000)):
        for users in (100, 4_000):
            found = verdict(users=users, isl=isl, osl=osl, machine="a4-highgpu-8g")
            assert found.advice != "yes" or found.best.gain.low > 1
            assert found.advice != "no" or found.best.gain.high <= 1
            assert found.best.gain.low <= found.best.gain.value <= found.best.gain.high
            assert found.ratio.low <= found.ratio.value <= found.ratio.high


def test_short_prompts_and_long_answers_have_nothing_to_gain() -> None:
    assert verdict(users=4_000, isl=200, osl=800, machine="a4-highgpu-8g").advice == "no"


def test_a_smaller_step_is_named_first_and_has_room() -> None:
    found = verdict(users=16_000, machine="a4-highgpu-8g")
    assert found.cure is not None
    assert found.cure.max_num_batched_tokens == 2_048
    assert found.best.apart.longest_gap_s < found.cure.longest_gap_s < found.together.longest_gap_s / 4


def test_a_node_with_one_engine_has_no_verdict() -> None:
    assert prefill_apart(ONE_H200, named_workload("article"), 64) is None


def test_drafts_of_a_hybrid_are_planned_without_prefix_caching() -> None:
    shared = Workload(
        input_tokens=Lengths.exactly(10_000), output_tokens=Lengths.exactly(200), shared_prefix_tokens=9_000
    )
    engine = EngineShape(max_model_len_tokens=16_384, prefix_caching=True, speculative_tokens=1)
    cached, plain = (
        prefill_apart(Deployment(nodes=1, engine=one), shared, 16)
        for one in (engine, EngineShape(max_model_len_tokens=16_384, prefix_caching=False, speculative_tokens=1))
    )
    assert cached == plain
