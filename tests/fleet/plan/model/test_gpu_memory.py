"""Tests of one GPU's memory against what the article and the trial say of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import figures
from facts.machines import H200
from facts.models import CATALOGUE, of_the_article
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model.deployment import Deployment, EngineShape, record_fleet
from fleet.plan.model.gpu_memory import DoesNotFitError, MemoryBudget, budget
from fleet.plan.model.measured import PHASES

ARTICLE = named_workload("article")
PHASE_2_RUNNING: int = figures.published("phases.dp8").details["running_requests"]


def _with(deployment: Deployment, **options: float) -> Deployment:
    return replace(deployment, engine=replace(deployment.engine, **options))  # type: ignore[arg-type]


def _within_budget_gib(room: MemoryBudget) -> float:
    weights = room.weights_gib + room.draft_gib + room.vision_gib + room.adapters_gib
    parts = (weights, room.activations_gib, room.sampler_gib, room.cache_gib)
    return sum(parts) + (room.cuda_graphs_gib if room.graphs_in_budget else 0)


def test_weights_by_arithmetic_are_those_measured_within_1_percent() -> None:
    model = of_the_article()
    assert model.text_weights_gib + model.draft_weights_gib == pytest.approx(28.0, rel=0.01)
    assert model.text_weights_gib * 2**30 / 1e9 == pytest.approx(29, abs=0.5)


def test_the_record_has_the_959k_kv_tokens_that_vllm_printed() -> None:
    assert budget(record_fleet(1)).kv_tokens // 1000 == 959


def test_phases_2_and_3_had_288k_because_8192_sequences_were_sampled_at_start_up() -> None:
    phase = PHASES["phases.dp8-4096"]
    assert budget(phase).kv_tokens // 1000 == 288
    assert budget(_with(phase, max_num_seqs=1024)).kv_tokens > 470_000


def test_with_the_8192_of_the_prose_the_record_could_not_have_run_what_it_ran() -> None:
    prose, record = (budget(_with(record_fleet(1), max_num_seqs=sequences)) for sequences in (8_192, 1_024))
    assert prose.kv_tokens < 600_000 < 959_000 <= record.kv_tokens
    assert prose.running_limit(ARTICLE) < 251 < record.running_limit(ARTICLE)
    assert prose.used_percent(251, ARTICLE) == 100


@given(slots=st.integers(0, 30), rank=st.sampled_from([8, 16, 64]))
def test_slots_of_adapters_come_out_of_the_cache(slots: int, rank: int) -> None:
    without, room = (budget(_with(record_fleet(1), max_loras=count, max_lora_rank=rank)) for count in (0, slots))
    assert without.adapters_gib == 0
    assert room.adapters_gib == pytest.approx(slots * rank * 0.2618 / 16, rel=0.001)
    assert room.cache_gib == pytest.approx(without.cache_gib - room.adapters_gib)
    assert _within_budget_gib(room) == pytest.approx(room.budget_gib)


@pytest.mark.parametrize(("drafts", "copies"), [(0, 3.5), (1, 7.5), (2, 7.5)])
def test_the_startup_step_keeps_logits_of_as_many_sequences_as_a_step_may_have(drafts: int, copies: float) -> None:
    engine = EngineShape(speculative_tokens=drafts, max_num_seqs=4_096, max_num_batched_tokens=2_048)
    assert budget(Deployment(nodes=1, engine=engine)).sampler_gib == pytest.approx(copies * 2_048 * 248_320 * 4 / 2**30)


def test_fp8_doubles_the_printed_tokens_and_holds_fewer_states() -> None:
    fp8 = budget(record_fleet(1))
    bfloat16 = budget(Deployment(nodes=1, engine=replace(record_fleet(1).engine, kv_cache_dtype="auto")))
    assert fp8.kv_tokens / bfloat16.kv_tokens == pytest.approx(2, abs=0.01)
    assert fp8.state_blocks < bfloat16.state_blocks


@pytest.mark.parametrize(("running", "published_percent"), [(251, 73), (253, 73), (256, 75)])
def test_the_running_requests_of_the_second_run_fill_the_cache_as_published(
    running: int, published_percent: float
) -> None:
    assert budget(record_fleet(1)).used_percent(running, ARTICLE) == pytest.approx(published_percent, abs=1.2)


def test_an_article_request_holds_seven_blocks() -> None:
    room = budget(record_fleet(1))
    assert room.blocks_per_sequence(ARTICLE) == 7


def test_phase_2_ran_as_many_as_the_startup_estimates_states_leave_room_for() -> None:
    room = budget(PHASES["phases.dp8"])
    assert room.state_blocks == 9
    assert room.blocks_per_sequence(ARTICLE) == pytest.approx(10.6, rel=0.02)
    assert room.running_limit(ARTICLE) == pytest.approx(PHASE_2_RUNNING, rel=0.02)
    assert room.used_percent(PHASE_2_RUNNING, ARTICLE) == pytest.approx(99.4, abs=1)


def test_a_growing_sequence_holds_on_average_what_it_holds_step_by_step() -> None:
    room = budget(PHASES["phases.dp8"])
    one = Workload(input_tokens=Lengths.exactly(700), output_tokens=Lengths.exactly(1_000))
    held = [-(-tokens // 800) for tokens in range(701, 1_701)]
    assert room.blocks_per_sequence(one) - room.state_blocks == pytest.approx(sum(held) / len(held))


def test_the_h200_kept_as_much_for_its_cache_as_the_arithmetic_says() -> None:
    engine = EngineShape(data_parallel=1, max_num_batched_tokens=16_384, max_num_seqs=256, language_model_only=True)
    room = budget(Deployment(nodes=1, gpu=H200, gpus_per_node=1, engine=engine))
    assert room.cache_gib == pytest.approx(95.08, rel=0.02)


def test_tensor_parallelism_splits_weights_and_heads_and_repeats_a_kv_head() -> None:
    room = budget(PHASES["phases.tp8"])
    assert room.weights_gib == pytest.approx(of_the_article().text_weights_gib / 8)
    shape = room.layout.architecture
    assert (shape.kv_heads, shape.linear_key_heads, shape.linear_value_heads) == (1, 2, 6)


def test_a_model_too_large_for_one_gpu_is_refused_with_the_parts() -> None:
    large = Deployment(nodes=1, model=CATALOGUE["nvidia/Qwen3.5-397B-A17B-NVFP4"].shape)
    with pytest.raises(
        DoesNotFitError, match=r"397B.*does not fit one B200 with tensor_parallel 1: of 164 GiB.*take 2\d\d"
    ):
        budget(large)


def test_a_cache_too_small_for_the_longest_request_is_refused() -> None:
    long = Workload(input_tokens=Lengths.exactly(250_000), output_tokens=Lengths.exactly(2_000))
    small = _with(record_fleet(1), gpu_memory_utilization=0.25, max_model_len_tokens=262_144)
    with pytest.raises(DoesNotFitError, match="request of 252,000 tokens"):
        budget(small, long)


@given(
    utilization=st.floats(0.3, 1),
    sequences=st.integers(1, 8192),
    tokens=st.integers(0, 4),
    dtype=st.sampled_from(["auto", "fp8_e4m3"]),
    estimated=st.booleans(),
    running=st.integers(0, 20_000),
)
def test_the_parts_are_never_negative_and_never_more_than_the_gpu(
    utilization: float, sequences: int, tokens: int, dtype: str, estimated: bool, running: int
) -> None:
    engine = EngineShape(
        gpu_memory_utilization=utilization,
        max_num_seqs=sequences,
        speculative_tokens=tokens,
        kv_cache_dtype=dtype,
        estimate_cudagraphs=estimated,
    )
    try:
        room = budget(Deployment(nodes=1, engine=engine))
    except DoesNotFitError:
        return
    assert room.cache_gib > 0
    assert _within_budget_gib(room) == pytest.approx(room.budget_gib)
    assert room.budget_gib <= room.gpu_gib
    assert 0 <= room.used_percent(running, ARTICLE) <= 100


@given(sequences=st.integers(1, 8191))
def test_a_higher_max_num_seqs_never_leaves_more_cache(sequences: int) -> None:
    here = budget(Deployment(nodes=1, engine=EngineShape(max_num_seqs=sequences)))
    more = budget(Deployment(nodes=1, engine=EngineShape(max_num_seqs=sequences + 1)))
    assert more.cache_gib < here.cache_gib
