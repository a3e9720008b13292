from __future__ import annotations

from itertools import product

import pytest

import cache_memory
import figures
from facts import memory

ARCHITECTURE = cache_memory.Architecture(**figures.architectures()["Qwen3.5-27B"])
KINDS = list(product(("fp8_e4m3", "auto", "bfloat16"), (0, 1, 2, 5), ("auto", "float16")))


def layouts(kv: str, drafts: int, states: str) -> tuple[cache_memory.Layout, memory.CacheLayout]:
    return (
        cache_memory.Layout(
            architecture=ARCHITECTURE,
            bf16=kv in cache_memory.BF16_CACHES,
            speculative_tokens=drafts,
            half_states=states == "float16",
        ),
        memory.CacheLayout(kv_cache_dtype=kv, speculative_tokens=drafts, ssm_cache_dtype=states),
    )


@pytest.mark.parametrize(("kv", "drafts", "states"), KINDS)
def test_the_packs_arithmetic_is_the_planners(kv: str, drafts: int, states: str) -> None:
    mine, planners = layouts(kv, drafts, states)
    assert mine.block_tokens == memory.attention_block_tokens(planners)
    assert mine.block_bytes == memory.pool_block_bytes(planners)
    assert mine.shortest_prompt_that_hits == memory.shortest_prompt_prefix_caching_can_hit(planners)
    for room in (0.0, 42.0, 95.08):
        assert mine.blocks(room) == memory.max_num_seqs_limit(planners, room)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.92, 0.95, 1.0])
@pytest.mark.parametrize("weights_gib", [memory.WEIGHTS_AND_DRAFT_GIB, 160.0, 400.0])
def test_the_room_for_the_cache_is_the_planners(share: float, weights_gib: float) -> None:
    assert cache_memory.cache_gib(utilisation=share, weights_gib=weights_gib) == pytest.approx(
        memory.cache_gib_per_gpu(gpu_memory_utilization=share, weights_and_draft_gib=weights_gib)
    )


def test_the_articles_block_and_its_shortest_hit_are_the_known_ones() -> None:
    mine, _ = layouts("fp8_e4m3", 1, "auto")
    assert (mine.block_tokens, mine.shortest_prompt_that_hits, mine.block_bytes) == (1_584, 3_169, 55_148_544)


def test_the_architecture_is_the_planners() -> None:
    known = memory.QWEN3_5_27B
    assert figures.architectures()["Qwen3.5-27B"] == {
        name: getattr(known, name) for name in memory.HybridArchitecture.__slots__
    }
