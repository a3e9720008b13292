"""Tests of the cache arithmetic against the tables of the real KV-cache manager and of a real GPU."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import memory
from facts.machines import B200
from facts.memory import CacheLayout
from facts.models import CATALOGUE

RECORD = CacheLayout()
NO_MTP = CacheLayout(speculative_tokens=0)
RECORD_LOGITS_GIB = memory.startup_logits_gib(
    max_num_seqs=1_024, max_num_batched_tokens=16_384, vocabulary=248_320, drafts=True
)


def test_one_token_of_keys_and_values_takes_4096_bytes_in_bf16_2048_in_fp8_and_1152_in_4_bits() -> None:
    assert memory.kv_bytes_per_token(RECORD) == 2048
    assert memory.kv_bytes_per_token(CacheLayout(kv_cache_dtype="bfloat16")) == 4096
    assert memory.kv_bytes_per_token(CacheLayout(kv_cache_dtype="nvfp4")) == 1152


def test_one_state_takes_the_bytes_vllm_allocates() -> None:
    assert memory.state_bytes(RECORD) == 3_227_648
    assert memory.state_bytes(NO_MTP) == 3_207_168


@pytest.mark.parametrize(
    ("layout", "tokens"),
    [
        (RECORD, 1584),
        (NO_MTP, 1568),
        (CacheLayout(speculative_tokens=2), 1600),
        (CacheLayout(kv_cache_dtype="auto"), 800),
        (CacheLayout(ssm_cache_dtype="float16"), 816),
    ],
)
def test_attention_block_is_the_one_vllm_logs(layout: CacheLayout, tokens: int) -> None:
    assert memory.attention_block_tokens(layout) == tokens


def test_pool_block_covers_one_group_of_layers() -> None:
    assert memory.pool_block_bytes(RECORD) == 55_148_544
    assert memory.pool_block_bytes(NO_MTP) == 51_380_224
    assert memory.linear_groups(RECORD) == memory.linear_groups(NO_MTP) == 3


@pytest.mark.parametrize(
    ("prefix_caching", "speculative_tokens", "blocks", "pool", "concurrency"),
    [(False, 0, 5, 2674, 534.8), (False, 1, 8, 2492, 311.5), (True, 0, 8, 2674, 334.25), (True, 1, 11, 2492, 226.55)],
)
def test_startup_estimate_repeats_the_table_for_128_gib(
    prefix_caching: bool, speculative_tokens: int, blocks: int, pool: int, concurrency: float
) -> None:
    layout = CacheLayout(prefix_caching=prefix_caching, speculative_tokens=speculative_tokens)
    assert memory.startup_blocks_per_request(layout, 2560) == blocks
    assert memory.pool_blocks(layout, 128) == pool
    assert memory.startup_concurrency(layout, 128, 2560) == pytest.approx(concurrency, abs=0.01)


def test_the_cache_has_the_tokens_that_the_h200_logged() -> None:
    without_caching = CacheLayout(prefix_caching=False)
    assert int(2560 * memory.startup_concurrency(RECORD, 95.08, 2560)) == 430_778
    assert int(2560 * memory.startup_concurrency(without_caching, 95.08, 2560)) == 592_320


@pytest.mark.parametrize(("in_flight", "used_percent"), [(250, 94.6), (128, 48.0)])
def test_running_blocks_explain_the_cache_use_the_h200_showed(in_flight: int, used_percent: float) -> None:
    used = in_flight * memory.running_blocks_per_request(RECORD, 1536) / memory.pool_blocks(RECORD, 95.08)
    assert 100 * used == pytest.approx(used_percent, abs=0.5)


def test_estimated_cache_of_a_b200_explains_the_published_73_percent() -> None:
    cache_gib = memory.cache_gib_per_gpu(
        gpu_memory_utilization=0.92, logits_gib=RECORD_LOGITS_GIB, gpu_memory_gib=B200.memory_gib
    )
    used = 251 * memory.running_blocks_per_request(RECORD, 1536) / memory.pool_blocks(RECORD, cache_gib)
    assert 100 * used == pytest.approx(73, abs=2)


def test_the_record_can_never_hit_its_prefix_cache() -> None:
    assert memory.shortest_prompt_prefix_caching_can_hit(RECORD) == 3169
    assert memory.shortest_prompt_prefix_caching_can_hit(NO_MTP) == 1569
    assert memory.shortest_prompt_prefix_caching_can_hit(CacheLayout(prefix_caching=False)) is None


@pytest.mark.parametrize(
    ("prompt_tokens", "with_mtp", "without_mtp"),
    [(2500, 0, 1584), (3168, 0, 1584), (3169, 1584, 3168), (3200, 1584, 3168), (4800, 3168, 4752)],
)
def test_repeated_prompts_hit_as_the_real_cache_manager_did(
    prompt_tokens: int, with_mtp: int, without_mtp: int
) -> None:
    assert memory.cached_prompt_tokens(RECORD, prompt_tokens) == with_mtp
    assert memory.cached_prompt_tokens(NO_MTP, prompt_tokens, block_tokens=1584) == without_mtp
    assert memory.cached_prompt_tokens(CacheLayout(prefix_caching=False), prompt_tokens) == 0


def test_max_num_seqs_of_8192_is_far_above_what_the_states_can_hold() -> None:
    cache_gib = memory.cache_gib_per_gpu(
        gpu_memory_utilization=0.92, logits_gib=RECORD_LOGITS_GIB, gpu_memory_gib=B200.memory_gib
    )
    assert memory.max_num_seqs_limit(RECORD, cache_gib) < 8192
    assert memory.max_num_seqs_limit(RECORD, 41.65) == pytest.approx(810, abs=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kv_cache_dtype": "int4"}, "kv_cache_dtype must be one of .*fp8_e4m3.*got 'int4'"),
        (
            {"kv_cache_dtype": "nvfp4", "architecture": CATALOGUE["deepseek-ai/DeepSeek-V3.1"].shape.architecture},
            "kv_cache_dtype must not be nvfp4",
        ),
        ({"ssm_cache_dtype": "fp8"}, "ssm_cache_dtype must be one of .*float16.*got 'fp8'"),
        ({"speculative_tokens": -1}, "speculative_tokens must be 0 or more, got -1"),
    ],
)
def test_a_value_vllm_does_not_take_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CacheLayout(**wrong)


@pytest.mark.parametrize("utilization", [0, -0.1, 1.01])
def test_a_memory_utilization_outside_0_to_1_is_refused(utilization: float) -> None:
    with pytest.raises(ValueError, match="gpu_memory_utilization must be above 0 and at most 1"):
        memory.cache_gib_per_gpu(gpu_memory_utilization=utilization, logits_gib=0, gpu_memory_gib=B200.memory_gib)


layouts = st.builds(
    CacheLayout,
    kv_cache_dtype=st.sampled_from(["auto", "bfloat16", "fp8", "fp8_e4m3", "nvfp4"]),
    speculative_tokens=st.integers(0, 8),
    ssm_cache_dtype=st.sampled_from(["auto", "float32", "float16"]),
    prefix_caching=st.booleans(),
)


@given(layout=layouts)
def test_a_block_always_holds_one_state_and_no_multiple_of_16_less_would(layout: CacheLayout) -> None:
    block_bytes = memory.attention_block_tokens(layout) * memory.kv_bytes_per_token(layout)
    assert block_bytes >= memory.state_bytes(layout)
    assert block_bytes - 16 * memory.kv_bytes_per_token(layout) < memory.state_bytes(layout)


@given(layout=layouts, cache_gib=st.floats(0, 200), tokens=st.integers(1, 262_144))
def test_longer_sequences_never_run_in_greater_number(layout: CacheLayout, cache_gib: float, tokens: int) -> None:
    blocks = memory.pool_blocks(layout, cache_gib)
    here, longer = (blocks // memory.running_blocks_per_request(layout, length) for length in (tokens, tokens + 1))
    assert 0 <= longer <= here <= memory.max_num_seqs_limit(layout, cache_gib)


@given(layout=layouts, prompt_tokens=st.integers(0, 300_000))
def test_a_hit_needs_the_shortest_prompt_and_never_covers_all_of_it(layout: CacheLayout, prompt_tokens: int) -> None:
    shortest = memory.shortest_prompt_prefix_caching_can_hit(layout)
    cached = memory.cached_prompt_tokens(layout, prompt_tokens)
    assert (cached > 0) == (shortest is not None and prompt_tokens >= shortest)
    assert cached == 0 or cached < prompt_tokens


@given(
    slots=st.integers(1, 64),
    rank=st.sampled_from([1, 8, 16, 32, 64, 128, 256, 320, 512]),
    ranks=st.sampled_from([1, 2, 4, 8]),
)
def test_slots_of_adapters_grow_with_their_number_and_rank_and_shrink_with_ranks_that_split_them(
    slots: int, rank: int, ranks: int
) -> None:
    widths = memory.AdapterWidths(whole=1_000, split=3_000)
    here = memory.adapter_slots_gib(widths, slots=slots, rank=rank, ranks=ranks)
    assert memory.adapter_slots_gib(widths, slots=slots + 1, rank=rank, ranks=ranks) > here
    assert memory.adapter_slots_gib(widths, slots=slots, rank=2 * rank, ranks=ranks) == pytest.approx(2 * here)
    split = memory.adapter_slots_gib(widths, slots=slots, rank=rank, ranks=2 * ranks)
    # The half that every GPU has whole does not shrink.
    assert here / 2 < split < here


def test_a_slot_has_the_inputs_and_outputs_of_every_matrix() -> None:
    """By hand: Qwen3-32B: 64 layers of hidden size 5120, q 8192, k and v 1024, MLP 25600, vocabulary 151936."""
    whole = 64 * (3 * 5120 + 5120 + 2 * 5120 + 5120) + 2 * (151_936 + 5_120)
    split = 64 * (8192 + 2 * 1024 + 8192 + 2 * 25_600 + 25_600)
    widths = CATALOGUE["Qwen/Qwen3-32B"].shape.adapter_widths
    assert (widths.whole, widths.split) == (whole, split)


@pytest.mark.parametrize("model", CATALOGUE)
def test_adapters_of_experts_take_what_all_experts_take(model: str) -> None:
    shape = CATALOGUE[model].shape
    slot = memory.adapter_slots_gib(shape.adapter_widths, slots=1, rank=16, ranks=1)
    assert (slot > 0.4) == (shape.experts > 0)
