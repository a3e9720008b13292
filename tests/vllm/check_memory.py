"""Hold facts/memory.py against the KV-cache code of vLLM 0.18.1 itself, for every kind of model in the catalogue.

Run where `tests.vllm.check_parser` runs (`make vllm-check` does both): `.venv-vllm/bin/python -m tests.vllm.check_memory`. It needs no GPU
and no weights: the specs of the layers are vLLM's own classes, filled with what a model's layers would say of themselves; groups, blocks,
concurrency and the blocks that a growing sequence holds are computed by vLLM.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from facts import memory
from facts.memory import CacheLayout
from facts.models import CATALOGUE
from tests.vllm.check_parser import Check, _equal, run

CACHE_BYTES = 40 * 2**30
LENGTHS = (1, 127, 128, 129, 1_024, 1_700, 8_192, 20_000)
# One model for every shape, and what its layers look like on eight ranks; several draft lengths and cache types.
LAYOUTS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "hybrid, the record": ("Qwen/Qwen3.5-27B-FP8", 1, {}),
    "hybrid, no drafts, no prefix cache": ("Qwen/Qwen3.5-4B", 1, {"speculative_tokens": 0, "prefix_caching": False}),
    "hybrid, 16-bit state and cache": ("Qwen/Qwen3.5-27B", 1, {"ssm_cache_dtype": "float16", "kv_cache_dtype": "auto"}),
    "hybrid, two KV heads on eight ranks": ("Qwen/Qwen3.5-35B-A3B", 8, {"speculative_tokens": 2}),
    "hybrid, Mamba-2": (
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        1,
        {"speculative_tokens": 0, "kv_cache_dtype": "auto"},
    ),
    "hybrid, Mamba-2 with a draft layer": ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 4, {}),
    "gqa": ("Qwen/Qwen3-32B", 1, {"speculative_tokens": 0, "kv_cache_dtype": "auto"}),
    "gqa, fewer KV heads than ranks": ("Qwen/Qwen3-30B-A3B", 8, {"speculative_tokens": 0}),
    "sparse gqa": ("MiniMaxAI/MiniMax-M3", 8, {"speculative_tokens": 0, "kv_cache_dtype": "auto"}),
    "gqa with a draft layer": ("zai-org/GLM-4.7-FP8", 8, {}),
    "mla": ("deepseek-ai/DeepSeek-V3.1", 8, {"kv_cache_dtype": "auto"}),
    "mla, fp8": ("zai-org/GLM-4.7-Flash", 2, {"speculative_tokens": 0}),
    "sparse mla": ("deepseek-ai/DeepSeek-V3.2", 8, {"kv_cache_dtype": "auto", "speculative_tokens": 0}),
    "sparse mla, fp8": ("deepseek-ai/DeepSeek-V3.2", 8, {"kv_cache_dtype": "fp8", "speculative_tokens": 0}),
    "windows, as many as full layers": ("openai/gpt-oss-20b", 1, {"speculative_tokens": 0, "kv_cache_dtype": "auto"}),
    "windows, five to one and a rest": (
        "google/gemma-3-27b-it",
        1,
        {"speculative_tokens": 0, "kv_cache_dtype": "auto"},
    ),
    "windows with other heads": ("google/gemma-4-31B-it", 1, {"speculative_tokens": 0, "kv_cache_dtype": "auto"}),
    "chunks": ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 4, {"speculative_tokens": 0, "kv_cache_dtype": "auto"}),
}


def layout_of(model: str, ranks: int, options: dict[str, Any]) -> CacheLayout:
    """The cache of one rank."""
    return CacheLayout(architecture=CATALOGUE[model].shape.architecture.on_one_of(ranks), **options)


def specs(layout: CacheLayout) -> dict[str, Any]:
    """What each layer of a worker tells vLLM of its cache (`get_kv_cache_spec`)."""
    import torch
    from vllm.v1 import kv_cache_interface as kv

    shape = layout.architecture
    dtype = torch.bfloat16 if layout.kv_cache_dtype in memory.TWO_BYTE_CACHES else torch.uint8
    # Blocks are as long in every layer when the layers speak; vLLM evens out their bytes afterwards.
    state_of_config = CacheLayout(architecture=replace(shape, window_layers=0), **_options(layout))
    block = memory.attention_block_tokens(state_of_config)
    found: dict[str, Any] = {}
    for i in range(shape.full_attention_layers + (shape.mtp_layers if layout.speculative_tokens else 0)):
        if shape.latent_size:
            kind = "fp8_ds_mla" if shape.indexer_bytes and dtype is torch.uint8 else layout.kv_cache_dtype
            found[f"full.{i}"] = kv.MLAAttentionSpec(
                block_size=block, num_kv_heads=1, head_size=shape.latent_size, dtype=dtype, cache_dtype_str=kind
            )
            if shape.indexer_bytes:
                found[f"index.{i}"] = kv.MLAAttentionSpec(
                    block_size=block, num_kv_heads=1, head_size=shape.indexer_bytes, dtype=torch.uint8
                )
        else:
            found[f"full.{i}"] = kv.FullAttentionSpec(
                block_size=block, num_kv_heads=shape.kv_heads, head_size=shape.head_size, dtype=dtype
            )
            if shape.indexer_bytes:
                found[f"index.{i}"] = kv.MLAAttentionSpec(
                    block_size=block, num_kv_heads=1, head_size=shape.indexer_bytes, dtype=torch.uint8
                )
    for i in range(shape.window_layers):
        size = {"num_kv_heads": shape.window_kv_heads, "head_size": shape.window_head_size, "dtype": dtype}
        found[f"window.{i}"] = (
            kv.ChunkedLocalAttentionSpec(block_size=block, attention_chunk_size=shape.window_tokens, **size)
            if shape.window_is_chunk
            else kv.SlidingWindowSpec(block_size=block, sliding_window=shape.window_tokens, **size)
        )
    if shape.linear_attention_layers:
        found |= dict.fromkeys((f"linear.{i}" for i in range(shape.linear_attention_layers)), _states(layout, block))
    return found


def _states(layout: CacheLayout, block: int) -> Any:
    import torch
    from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
    from vllm.v1.kv_cache_interface import MambaSpec

    shape = layout.architecture
    shapes = MambaStateShapeCalculator.gated_delta_net_state_shape(
        1,
        shape.linear_key_heads,
        shape.linear_value_heads,
        shape.linear_key_size,
        shape.linear_value_size,
        shape.convolution_kernel,
        layout.speculative_tokens,
    )
    recurrent = torch.float32 if layout.ssm_cache_dtype == "auto" else torch.float16
    return MambaSpec(
        block_size=block if layout.prefix_caching else 2**20,
        shapes=shapes,
        dtypes=(torch.bfloat16, recurrent),
        page_size_padded=block * memory.kv_bytes_per_token(layout),
        mamba_type="gdn_attention",
        mamba_cache_mode="align" if layout.prefix_caching else "none",
        num_speculative_blocks=layout.speculative_tokens,
    )


def _options(layout: CacheLayout) -> dict[str, Any]:
    names = ("kv_cache_dtype", "speculative_tokens", "ssm_cache_dtype", "prefix_caching")
    return {name: getattr(layout, name) for name in names}


def _config(layout: CacheLayout, max_model_len: int) -> Any:
    """As much of vLLM's configuration as its cache code reads."""
    return SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=max_model_len, original_max_model_len=max_model_len),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=layout.batched_tokens, disable_hybrid_kv_cache_manager=False
        ),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1),
        cache_config=SimpleNamespace(
            num_gpu_blocks_override=None, mamba_cache_mode="align" if layout.prefix_caching else "none"
        ),
    )


def starts_alike(layout: CacheLayout) -> None:
    """Blocks of the pool and requests of full length, as vLLM prints them when it starts."""
    from vllm.v1.core.kv_cache_utils import get_kv_cache_configs, get_max_concurrency_for_kv_cache_config

    for longest in LENGTHS:
        config = _config(layout, longest)
        (cache,) = get_kv_cache_configs(config, [specs(layout)], [CACHE_BYTES])
        gib = CACHE_BYTES / memory.GIB
        _equal(cache.num_blocks, memory.pool_blocks(layout, gib), "blocks")
        _equal(
            get_max_concurrency_for_kv_cache_config(config, cache),
            memory.startup_concurrency(layout, gib, longest),
            f"requests of {longest} tokens",
        )
        smallest = min(group.kv_cache_spec.block_size for group in cache.kv_cache_groups)
        printed = cache.num_blocks // len(cache.kv_cache_groups) * smallest
        _equal(printed, memory.logged_kv_tokens(layout, cache.num_blocks), "tokens as printed")


def grows_alike(layout: CacheLayout) -> None:
    """Blocks that one sequence holds while it decodes, by vLLM's own manager."""
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.core.kv_cache_utils import generate_scheduler_kv_cache_config, get_kv_cache_configs

    # Aligned states need every block's hash; what a running sequence holds is the same without.
    layout = replace(layout, prefix_caching=False)
    (cache,) = get_kv_cache_configs(_config(layout, 2**17), [specs(layout)], [CACHE_BYTES])
    manager = KVCacheManager(
        generate_scheduler_kv_cache_config([cache]), max_model_len=2**17, hash_block_size=16, enable_caching=False
    )
    free = manager.block_pool.get_num_free_blocks()
    request = SimpleNamespace(request_id="one", num_computed_tokens=0, skip_reading_prefix_cache=True)
    for length in range(1, max(LENGTHS) + 1):
        request.num_computed_tokens = length - 1
        if manager.allocate_slots(request, 1) is None:
            raise AssertionError("vLLM has no room for one sequence")
        if length in LENGTHS:
            held = free - manager.block_pool.get_num_free_blocks()
            _equal(held, memory.running_blocks_per_request(layout, length), f"blocks held by {length} tokens")


def checks() -> Iterator[Check]:
    """Every check, by name."""
    for name, (model, ranks, options) in LAYOUTS.items():
        layout = layout_of(model, ranks, options)
        check: Callable[[CacheLayout], None]
        for title, check in (("starts", starts_alike), ("grows", grows_alike)):
            yield f"{name}: {model} on {ranks} {title} alike", partial(check, layout)


if __name__ == "__main__":
    sys.exit(run(checks))
