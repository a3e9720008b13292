"""KV-cache and recurrent-state memory of hybrid models: the block arithmetic vLLM does at start-up, as pure functions.

A hybrid model keeps two kinds of memory in one pool of equal blocks: keys and values of the full-attention layers,
which grow with the sequence, and the state of the linear layers, which does not. vLLM makes a block large enough for
one state, so the attention block is hundreds of tokens long. From that follow the concurrency a GPU can hold and the
shortest prompt that prefix caching can ever hit.

Source: vLLM 0.18.1, model_executor/models/config.py, v1/core/kv_cache_utils.py, v1/kv_cache_interface.py; its KV-cache
manager was run without a GPU for the tables the tests repeat.
Measured: one H200, vLLM 0.20.2, 2026-11-21: WEIGHTS_AND_DRAFT_GIB, cache sizes, use of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30


# Source: vLLM 0.18.1, attention kernels take blocks in multiples of 16 tokens.
ATTENTION_BLOCK_MULTIPLE = 16
# Source: vLLM 0.18.1: the convolution state is kept in the model's dtype, bfloat16 here.
CONVOLUTION_STATE_BYTES = 2
# Measured: one H200, vLLM 0.20.2, 2026-11-21: Qwen3.5-27B-FP8 and its MTP layer; the draft shares embeddings and
# output head.
WEIGHTS_AND_DRAFT_GIB = 28.0
# Measured: same run: 139 GiB x 0.92 - 28.0 (weights, draft) - 95.08 (cache). Activations, CUDA graphs, allocator.
ENGINE_OVERHEAD_GIB = 4.8
# Source: the article, 180 GB of HBM3e per B200. Assumed: decimal gigabytes, the lower reading.
B200_MEMORY_GIB = 180e9 / GIB

# Source: vLLM 0.18.0 and 0.18.1, which are alike here: v1/worker/gpu_model_runner.py (profile_run, _dummy_sampler_run),
# v1/sample/sampler.py and rejection_sampler.py. The start-up step samples for --max-num-seqs sequences; counted in float32
# copies of their logits, at the peak. With drafts: random logits of a token and a draft in bfloat16 (1), those of the
# bonus token in bfloat16 and float32 (1.5), of the target raw and processed (2), its probabilities, random numbers and
# their reciprocals (3). Without: logits in bfloat16 and float32 (1.5), probabilities and random numbers (2).
LOGIT_COPIES_WITH_DRAFTS, LOGIT_COPIES = 7.5, 3.5

# Source: choices of --kv-cache-dtype and --mamba-ssm-cache-dtype in vLLM 0.18.1; auto is the model's own type.
TWO_BYTE_CACHES = frozenset({"auto", "bfloat16", "float16"})
_KV_BYTES = dict.fromkeys(TWO_BYTE_CACHES, 2) | dict.fromkeys(
    ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"), 1
)
_SSM_BYTES = {"auto": 4, "float32": 4, "float16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridArchitecture:
    """The numbers of a hybrid model's config.json that decide its cache memory."""

    full_attention_layers: int
    """Layers whose keys and values grow with the sequence."""
    linear_attention_layers: int
    """Layers (Gated DeltaNet) that keep one state per sequence."""
    kv_heads: int
    head_size: int
    linear_key_heads: int
    linear_value_heads: int
    linear_head_size: int
    convolution_kernel: int
    mtp_layers: int
    """Full-attention layers of the multi-token-prediction draft; cached only when speculation is on."""


# Source: public config.json of Qwen/Qwen3.5-27B-FP8; `auto` of --mamba-ssm-cache-dtype takes its mamba_ssm_dtype,
# float32.
QWEN3_5_27B = HybridArchitecture(
    full_attention_layers=16,
    linear_attention_layers=48,
    kv_heads=4,
    head_size=256,
    linear_key_heads=16,
    linear_value_heads=48,
    linear_head_size=128,
    convolution_kernel=4,
    mtp_layers=1,
)


ARCHITECTURES = {"Qwen3.5-27B": QWEN3_5_27B}
"""Models whose architecture is known, by a part of their name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """One engine's cache settings (one engine per GPU under data parallelism). Raises ValueError on a value vLLM does
    not take.
    """

    architecture: HybridArchitecture = QWEN3_5_27B
    kv_cache_dtype: str = "fp8_e4m3"
    """`--kv-cache-dtype`."""
    speculative_tokens: int = 1
    """`num_speculative_tokens` of the MTP draft; 0 is no speculation."""
    ssm_cache_dtype: str = "auto"
    """`--mamba-ssm-cache-dtype`."""
    prefix_caching: bool = True
    """`--enable-prefix-caching`, which makes vLLM keep linear-layer states aligned to blocks
    (`--mamba-cache-mode=align`).
    """

    def __post_init__(self) -> None:
        if self.kv_cache_dtype not in _KV_BYTES:
            raise ValueError(f"kv_cache_dtype must be one of {', '.join(_KV_BYTES)}, got {self.kv_cache_dtype!r}")
        if self.ssm_cache_dtype not in _SSM_BYTES:
            raise ValueError(f"ssm_cache_dtype must be one of {', '.join(_SSM_BYTES)}, got {self.ssm_cache_dtype!r}")
        if self.speculative_tokens < 0:
            raise ValueError(f"speculative_tokens must be 0 or more, got {self.speculative_tokens}")


def kv_bytes_per_token(layout: CacheLayout) -> int:
    """Bytes one token's keys and values take in one full-attention layer."""
    architecture = layout.architecture
    return 2 * architecture.kv_heads * architecture.head_size * _KV_BYTES[layout.kv_cache_dtype]


def state_bytes(layout: CacheLayout) -> int:
    """Bytes of one sequence's state in one linear layer."""
    architecture = layout.architecture
    recurrent = architecture.linear_value_heads * architecture.linear_head_size**2 * _SSM_BYTES[layout.ssm_cache_dtype]
    channels = (2 * architecture.linear_key_heads + architecture.linear_value_heads) * architecture.linear_head_size
    history_tokens = architecture.convolution_kernel - 1 + layout.speculative_tokens
    return recurrent + channels * history_tokens * CONVOLUTION_STATE_BYTES


def attention_block_tokens(layout: CacheLayout) -> int:
    """Tokens in one block: the smallest multiple of 16 whose keys and values are at least one state. vLLM raises
    smaller values.
    """
    bytes_per_step = ATTENTION_BLOCK_MULTIPLE * kv_bytes_per_token(layout)
    return ATTENTION_BLOCK_MULTIPLE * _ceil_div(state_bytes(layout), bytes_per_step)


def pool_block_bytes(layout: CacheLayout) -> int:
    """Bytes of one block of the pool, across the layers of one group. Linear groups are padded to the attention
    group's size.
    """
    return _attention_layers(layout) * attention_block_tokens(layout) * kv_bytes_per_token(layout)


def linear_groups(layout: CacheLayout) -> int:
    """Groups of linear layers; each takes its own blocks for every sequence."""
    return _ceil_div(layout.architecture.linear_attention_layers, _attention_layers(layout))


def pool_blocks(layout: CacheLayout, cache_gib: float) -> int:
    """Blocks in the pool when `cache_gib` GiB of one GPU are left for the cache."""
    return int(cache_gib * GIB // pool_block_bytes(layout))


def startup_blocks_per_request(layout: CacheLayout, max_model_len_tokens: int) -> int:
    """Blocks vLLM's start-up estimate gives one request of full length: the worst case, which its log calls maximum
    concurrency.
    """
    states = 1 + layout.speculative_tokens + (1 if layout.prefix_caching else 0)
    return _ceil_div(max_model_len_tokens, attention_block_tokens(layout)) + linear_groups(layout) * states


def running_blocks_per_request(layout: CacheLayout, sequence_tokens: int) -> int:
    """Blocks a running sequence of `sequence_tokens` tokens holds.

    Aligned states are freed as they are passed, so prefix caching costs nothing here. Measured: 250 sequences of up
    to 1,536 tokens held
    94.6 % of 1,851 blocks, 128 held 48 %; this formula gives 94.5 % and 48.4 %.
    """
    return _ceil_div(sequence_tokens, attention_block_tokens(layout)) + linear_groups(layout) * (
        1 + layout.speculative_tokens
    )


def startup_concurrency(layout: CacheLayout, cache_gib: float, max_model_len_tokens: int) -> float:
    """Requests of full length one engine can hold, as vLLM prints it ("Maximum concurrency for N tokens per
    request").
    """
    return pool_blocks(layout, cache_gib) / startup_blocks_per_request(layout, max_model_len_tokens)


def kv_cache_tokens(layout: CacheLayout, cache_gib: float, max_model_len_tokens: int) -> int:
    """Tokens one engine's cache holds, as vLLM 0.20 prints it ("GPU KV cache size"): concurrency times the maximum
    length. What 0.18 prints is `logged_kv_tokens`.
    """
    return int(startup_concurrency(layout, cache_gib, max_model_len_tokens) * max_model_len_tokens)


def logged_kv_tokens(layout: CacheLayout, blocks: int) -> int:
    """Tokens vLLM 0.18 prints as "GPU KV cache size" for a pool of so many blocks, whatever --max-model-len.

    Source: vLLM 0.18.1, v1/core/kv_cache_utils.py: blocks over groups, times the attention block.
    """
    return blocks // (1 + linear_groups(layout)) * attention_block_tokens(layout)


def max_running_sequences(layout: CacheLayout, cache_gib: float, sequence_tokens: int) -> int:
    """Sequences of `sequence_tokens` tokens one engine can run at once before it must queue or preempt."""
    return pool_blocks(layout, cache_gib) // running_blocks_per_request(layout, sequence_tokens)


def max_num_seqs_limit(layout: CacheLayout, cache_gib: float) -> int:
    """Highest `--max-num-seqs` later engines accept: one recurrent-state block per sequence. vLLM 0.18 accepts more,
    never runs them, and keeps memory for their logits: `startup_logits_gib`.

    Measured: vLLM 0.20.2 refused 8192 for this model and named the number of state blocks, about 810 with 42 GiB of
    cache.
    """
    return pool_blocks(layout, cache_gib)


def startup_logits_gib(*, max_num_seqs: int, max_num_batched_tokens: int, vocabulary: int, drafts: bool) -> float:
    """GiB that the start-up step takes from the cache for the logits of as many sequences as may run. CUDA graphs and
    linear-layer states do not grow with `--max-num-seqs`: graphs end at 512 tokens, states are blocks of the cache.
    """
    copies = LOGIT_COPIES_WITH_DRAFTS if drafts else LOGIT_COPIES
    return copies * min(max_num_seqs, max_num_batched_tokens) * vocabulary * 4 / GIB


def shortest_prompt_prefix_caching_can_hit(layout: CacheLayout) -> int | None:
    """Tokens of the shortest prompt of which a part can come from the prefix cache, or None where prefix caching is
    off.

    The last token is always computed, so one whole block needs one token more. With MTP the last matched block is
    given up as well.
    """
    if not layout.prefix_caching:
        return None
    return attention_block_tokens(layout) * (2 if layout.speculative_tokens else 1) + 1


def cached_prompt_tokens(layout: CacheLayout, prompt_tokens: int, *, block_tokens: int | None = None) -> int:
    """Tokens of a repeated prompt that come from the cache. `block_tokens` overrides the block vLLM would choose."""
    if not layout.prefix_caching:
        return 0
    block = block_tokens or attention_block_tokens(layout)
    matched_blocks = max(0, prompt_tokens - 1) // block
    return max(0, matched_blocks - (1 if layout.speculative_tokens else 0)) * block


def cache_gib_per_gpu(
    *,
    gpu_memory_utilization: float,
    gpu_memory_gib: float = B200_MEMORY_GIB,
    weights_and_draft_gib: float = WEIGHTS_AND_DRAFT_GIB,
    overhead_gib: float = ENGINE_OVERHEAD_GIB,
) -> float:
    """GiB left for the cache on one GPU that holds the whole model; 0 where nothing is left. An estimate: the log
    line is the truth.
    """
    if not 0 < gpu_memory_utilization <= 1:
        raise ValueError(f"gpu_memory_utilization must be above 0 and at most 1, got {gpu_memory_utilization}")
    return max(0.0, gpu_memory_gib * gpu_memory_utilization - weights_and_draft_gib - overhead_gib)


def _attention_layers(layout: CacheLayout) -> int:
    return layout.architecture.full_attention_layers + (
        layout.architecture.mtp_layers if layout.speculative_tokens else 0
    )


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
