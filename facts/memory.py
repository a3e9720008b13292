"""KV-cache and state memory of models: vLLM's block arithmetic at startup, as pure functions.

vLLM keeps the cache of running sequences in one pool of equal blocks. Layers of the same kind share a block table; layers of different
kinds form groups of the same size, each with its own blocks for every sequence:
- full attention: keys and values of every token (MLA: one vector), so blocks grow with the sequence;
- a sliding window or chunk: the tokens that the layer attends to; older ones are freed;
- linear layers (Gated DeltaNet, Mamba-2): one state per sequence. A block must hold a state, so an attention block has hundreds of tokens,
  which determines the shortest prompt that prefix caching can hit.

Source: vLLM 0.18.1, model_executor/models/config.py, v1/core/kv_cache_utils.py, v1/core/single_type_kv_cache_manager.py,
v1/kv_cache_interface.py; tests/vllm/check_memory.py compares every kind of model with them, to the byte, without a GPU.
Measured: one H200, vLLM 0.20.2, 2026-11-21: WEIGHTS_AND_DRAFT_GIB, cache sizes, use of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

GIB = 2**30


# Source: vLLM 0.18.1, attention kernels need blocks in multiples of 16 tokens.
ATTENTION_BLOCK_MULTIPLE = 16
# Source: vLLM 0.18.1: the convolution state has the model's dtype, bfloat16 here.
CONVOLUTION_STATE_BYTES = 2
# Measured: one H200, vLLM 0.20.2, 2026-11-21: Qwen3.5-27B-FP8 and its MTP layer; the draft shares embeddings and
# output head.
WEIGHTS_AND_DRAFT_GIB = 28.0
# Without weights and logits: CUDA graphs 3.5, vision tower 0.8, activations 0.2, minus the 0.2 by which the measured weights exceed the
# computed ones. Source: fleet/plan/model/calibration.yaml, from the article's 959K tokens per engine.
ENGINE_OVERHEAD_GIB = 4.37

# Source: vLLM 0.18.0 and 0.18.1: v1/worker/gpu_model_runner.py (profile_run, _dummy_sampler_run), v1/sample/sampler.py and
# rejection_sampler.py. The startup step samples for --max-num-seqs sequences; peak in float32 copies of their logits. With drafts:
# random logits of a token and a draft in bfloat16 (1), of the bonus token in bfloat16 and float32 (1.5), of the target raw and processed
# (2), its probabilities, random numbers and their reciprocals (3). Without: logits in bfloat16 and float32 (1.5), probabilities and
# random numbers (2).
LOGIT_COPIES_WITH_DRAFTS, LOGIT_COPIES = 7.5, 3.5
# Startup memory of engines that are not calibrated, each part from a public log (docs/planner-model.md has the sums).
# Measured: vLLM 0.11 on H100, five dense and MoE models with vocabularies of 128,256 to 201,088: the peak is 9.5 to 9.9 float32 copies of
# 1,024 sequences' logits (llm-d); vLLM 0.29 on L4, 256 sequences, with vision tower: 9.2. The cause is sorting for top-k and top-p;
# without a draft vLLM 0.18.1 sorts less (not measured).
SORTED_LOGIT_COPIES = 9.6
# Measured: L4, vLLM 0.29: 9.01 GiB of weights and memory outside PyTorch, of which 8.66 are weights. Published for H100: 0.13.
DRIVER_GIB = 0.35
# Measured: L4, vLLM 0.29: 0.24 for 51 piecewise and 35 whole graphs.
GRAPHS_GIB = 0.25
# The rest of 4.8 GiB besides weights of the record on an H200 (16,384 tokens, 512 sequences, facts/data/h200.yaml).
DRAFT_GRAPHS_GIB = 0.65

# Source: vLLM 0.18.1 and 0.33.0: --lora-dtype auto is the model's type, 16 bits, for quantized weights too.
ADAPTER_VALUE_BYTES = 2
# Source: vLLM 0.18.1 and 0.33.0: LoRAConfig: --max-loras and --max-lora-rank.
DEFAULT_LORAS, DEFAULT_LORA_RANK = 1, 16

# Source: choices of --kv-cache-dtype and --mamba-ssm-cache-dtype in vLLM 0.18.1; auto is the model's own type.
TWO_BYTE_CACHES = frozenset({"auto", "bfloat16", "float16"})
FOUR_BIT_CACHE = "nvfp4"
# Source: vLLM 0.33.0, utils/torch_utils.py, nvfp4_kv_cache_full_dim: half a byte per value, and a scale of one byte for 16 values.
_FOUR_BIT_BYTES = Fraction(9, 16)
_KV_BYTES: dict[str, Fraction | int] = {
    **dict.fromkeys(TWO_BYTE_CACHES, 2),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"), 1),
    FOUR_BIT_CACHE: _FOUR_BIT_BYTES,
}
_SSM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
_SSM_CHOICES = ("auto", "float32", "float16")


# Source: vLLM 0.18.1: CacheConfig.DEFAULT_BLOCK_SIZE; the largest block of an MLA kernel except CUTLASS's (FlashMLA).
# Other MLA kernels use 16 or 32, which only changes the last block of a sequence.
_BLOCK_TOKENS, _LATENT_BLOCK_TOKENS = 16, 64
# Source: vLLM 0.18.1, v1/attention/backends/mla/flashmla_sparse.py: a vector of 512 + 64 in fp8 with scales. Blackwell with up to 16
# heads per GPU uses another kernel and plain fp8, 576 bytes.
_SPARSE_FP8_BYTES = 656
# Source: vLLM 0.18.1, kv_cache_utils.py: groups have the size of the rarest kind of layer, unless the commonest has less than 1.5 times as
# many.
_NEARLY_AS_MANY = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The numbers of a model's config.json that determine its cache memory. Layers of an absent kind are 0."""

    full_attention_layers: int = 0
    """Layers whose keys and values grow with the sequence."""
    kv_heads: int = 1
    """Heads of keys and values in those layers."""
    head_size: int = 0
    latent_size: int = 0
    """MLA: size of the vector per token for keys and values of all heads, complete on every rank."""
    indexer_bytes: int = 0
    """Sparse attention: bytes per token in the index of one layer, complete on every rank and regardless of the cache's type."""
    window_layers: int = 0
    """Attention layers with a window of `window_tokens`."""
    window_tokens: int = 0
    window_is_chunk: bool = False
    """Whether they attend to the start of a chunk with that many tokens instead."""
    window_kv_heads: int = 1
    window_head_size: int = 0
    linear_attention_layers: int = 0
    """Layers (Gated DeltaNet or Mamba-2) that keep one state per sequence."""
    linear_key_heads: int = 0
    """Of Mamba-2: groups."""
    linear_value_heads: int = 0
    linear_key_size: int = 0
    """Size of one of those heads. Of Mamba-2: of a group's state."""
    linear_value_size: int = 0
    convolution_kernel: int = 0
    linear_state_dtype: str = "float32"
    """Type of the state if `--mamba-ssm-cache-dtype` is auto."""
    mtp_layers: int = 0
    """Full-attention layers of the MTP draft, cached only with speculative decoding."""

    @property
    def linear_state_values(self) -> int:
        """Numbers in one sequence's recurrent state of one linear layer."""
        return self.linear_value_heads * self.linear_value_size * self.linear_key_size

    def on_one_of(self, ranks: int) -> Architecture:
        """The part on one GPU with tensor parallelism: heads are split, or repeated if there are fewer than ranks."""
        if ranks == 1:
            return self
        return replace(
            self,
            kv_heads=max(1, self.kv_heads // ranks),
            window_kv_heads=max(1, self.window_kv_heads // ranks),
            linear_key_heads=max(1, self.linear_key_heads // ranks) if self.linear_attention_layers else 0,
            linear_value_heads=max(1, self.linear_value_heads // ranks) if self.linear_attention_layers else 0,
        )


# Source: public config.json of Qwen/Qwen3.5-27B-FP8; `auto` of --mamba-ssm-cache-dtype is its mamba_ssm_dtype, float32.
QWEN3_5_27B = Architecture(
    full_attention_layers=16,
    linear_attention_layers=48,
    kv_heads=4,
    head_size=256,
    linear_key_heads=16,
    linear_value_heads=48,
    linear_key_size=128,
    linear_value_size=128,
    convolution_kernel=4,
    mtp_layers=1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterWidths:
    """Values per rank that one LoRA adapter's slot has for a model: inputs and outputs of every matrix that vLLM adapts."""

    whole: int
    """Those that every GPU has whole: inputs of column-parallel matrices, outputs of row-parallel ones."""
    split: int
    """Those that tensor parallelism splits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayout:
    """Cache settings of one engine (one per GPU with data parallelism). Raises ValueError for an invalid value."""

    architecture: Architecture = QWEN3_5_27B
    kv_cache_dtype: str = "fp8_e4m3"
    """`--kv-cache-dtype`."""
    speculative_tokens: int = 1
    """`num_speculative_tokens` of the MTP draft; 0 is no speculation."""
    ssm_cache_dtype: str = "auto"
    """`--mamba-ssm-cache-dtype`."""
    prefix_caching: bool = True
    """`--enable-prefix-caching`, which aligns linear-layer states to blocks (`--mamba-cache-mode=align`)."""
    block_tokens: int | None = None
    """`--block-size`. Default: vLLM's choice; a value too small for a state is raised."""
    batched_tokens: int = 8_192
    """`--max-num-batched-tokens`: the startup estimate includes a step's new tokens for window layers."""

    def __post_init__(self) -> None:
        if self.kv_cache_dtype not in _KV_BYTES:
            raise ValueError(f"kv_cache_dtype must be one of {', '.join(_KV_BYTES)}, got {self.kv_cache_dtype!r}")
        if self.kv_cache_dtype == FOUR_BIT_CACHE and self.architecture.latent_size:
            # Source: vLLM 0.33.0, config/vllm.py, validate_nvfp4_kv_cache_with_mla.
            raise ValueError(f"kv_cache_dtype must not be {FOUR_BIT_CACHE} for multi-head latent attention")
        if self.ssm_cache_dtype not in _SSM_CHOICES:
            raise ValueError(f"ssm_cache_dtype must be one of {', '.join(_SSM_CHOICES)}, got {self.ssm_cache_dtype!r}")
        if self.speculative_tokens < 0:
            raise ValueError(f"speculative_tokens must be 0 or more, got {self.speculative_tokens}")


def kv_bytes_per_token(layout: CacheLayout) -> int:
    """Bytes of one token's keys and values in one full-attention layer, including its index."""
    architecture, each = layout.architecture, _KV_BYTES[layout.kv_cache_dtype]
    if not architecture.latent_size:
        return 2 * architecture.kv_heads * int(architecture.head_size * each) + architecture.indexer_bytes
    sparse_fp8 = layout.kv_cache_dtype == "fp8_ds_mla" or (architecture.indexer_bytes and each == 1)
    return (_SPARSE_FP8_BYTES if sparse_fp8 else int(architecture.latent_size * each)) + architecture.indexer_bytes


def window_bytes_per_token(layout: CacheLayout) -> int:
    """Bytes of one token's keys and values in one window layer."""
    architecture = layout.architecture
    return 2 * architecture.window_kv_heads * int(architecture.window_head_size * _KV_BYTES[layout.kv_cache_dtype])


def sequence_bytes_per_token(layout: CacheLayout) -> int:
    """Bytes per token of a sequence, over all layers that keep every token."""
    return _attention_layers(layout) * kv_bytes_per_token(layout)


def sequence_bytes_at_most(layout: CacheLayout) -> int:
    """Bytes of a sequence that do not grow with it: states and full windows."""
    architecture = layout.architecture
    windows = architecture.window_layers * architecture.window_tokens * window_bytes_per_token(layout)
    return windows + architecture.linear_attention_layers * state_bytes(layout)


def state_bytes(layout: CacheLayout) -> int:
    """Bytes of one sequence's state in one linear layer."""
    architecture = layout.architecture
    dtype = architecture.linear_state_dtype if layout.ssm_cache_dtype == "auto" else layout.ssm_cache_dtype
    keys = architecture.linear_key_heads * architecture.linear_key_size
    values = architecture.linear_value_heads * architecture.linear_value_size
    recurrent = architecture.linear_state_values * _SSM_BYTES[dtype]
    history_tokens = architecture.convolution_kernel - 1 + layout.speculative_tokens
    return recurrent + (2 * keys + values) * history_tokens * CONVOLUTION_STATE_BYTES


def attention_block_tokens(layout: CacheLayout) -> int:
    """Tokens in one block of full attention.

    With linear layers the smallest multiple of 16 whose keys and values are at least as large as one state; vLLM raises smaller values.
    With window layers of more bytes per token, proportionally more tokens, so that blocks have the same size.
    """
    architecture = layout.architecture
    given = layout.block_tokens or (_LATENT_BLOCK_TOKENS if architecture.latent_size else _BLOCK_TOKENS)
    if architecture.linear_attention_layers:
        bytes_per_step = ATTENTION_BLOCK_MULTIPLE * kv_bytes_per_token(layout)
        return max(given, ATTENTION_BLOCK_MULTIPLE * _ceil_div(state_bytes(layout), bytes_per_step))
    if architecture.window_layers and architecture.full_attention_layers:
        return given * max(1, window_bytes_per_token(layout) // kv_bytes_per_token(layout))
    return given


def window_block_tokens(layout: CacheLayout) -> int:
    """Tokens in one block of a window layer."""
    return _block_bytes(layout) // window_bytes_per_token(layout)


def pool_block_bytes(layout: CacheLayout) -> int:
    """Bytes of one block of the pool, over the layers of one group. Smaller groups are padded."""
    return _layers_per_group(layout) * _block_bytes(layout)


def attention_groups(layout: CacheLayout) -> int:
    """Groups of full-attention layers; each has its own blocks for every sequence."""
    return _ceil_div(_attention_layers(layout), _layers_per_group(layout))


def window_groups(layout: CacheLayout) -> int:
    """Groups of window layers."""
    return _ceil_div(layout.architecture.window_layers, _layers_per_group(layout))


def linear_groups(layout: CacheLayout) -> int:
    """Groups of linear layers."""
    return _ceil_div(layout.architecture.linear_attention_layers, _layers_per_group(layout))


def pool_blocks(layout: CacheLayout, cache_gib: float) -> int:
    """Blocks in a pool of `cache_gib` GiB on one GPU."""
    return int(cache_gib * GIB // pool_block_bytes(layout))


def startup_blocks_per_request(layout: CacheLayout, max_model_len_tokens: int) -> int:
    """Blocks of one request of full length in vLLM's startup estimate, the worst case for the maximum concurrency in its log."""
    architecture, blocks = layout.architecture, 0
    if architecture.full_attention_layers:
        blocks += attention_groups(layout) * _ceil_div(max_model_len_tokens, attention_block_tokens(layout))
    if architecture.window_layers:
        back = architecture.window_tokens - (0 if architecture.window_is_chunk else 1)
        seen = min(back + layout.batched_tokens, max_model_len_tokens)
        # A window, unlike a chunk, may start within a block.
        more = 0 if architecture.window_is_chunk else 1
        blocks += window_groups(layout) * (_ceil_div(seen, window_block_tokens(layout)) + more)
    states = 1 + layout.speculative_tokens + (1 if layout.prefix_caching else 0)
    return blocks + linear_groups(layout) * states


def running_blocks_per_request(layout: CacheLayout, sequence_tokens: int) -> int:
    """Blocks of a running sequence of `sequence_tokens` tokens.

    Aligned states are freed during the run, so prefix caching has no cost here. Measured: 250 sequences of up to 1,536 tokens used
    94.6 % of 1,851 blocks, 128 used 48 %; this formula gives 94.5 % and 48.4 %.
    """
    architecture, blocks = layout.architecture, 0
    if architecture.full_attention_layers:
        blocks += attention_groups(layout) * _ceil_div(sequence_tokens, attention_block_tokens(layout))
    if architecture.window_layers:
        block, window = window_block_tokens(layout), architecture.window_tokens
        computed = max(0, sequence_tokens - 1)
        passed = computed // window * window if architecture.window_is_chunk else max(0, computed - window + 1)
        blocks += window_groups(layout) * (_ceil_div(sequence_tokens, block) - passed // block)
    return blocks + linear_groups(layout) * (1 + layout.speculative_tokens)


def startup_concurrency(layout: CacheLayout, cache_gib: float, max_model_len_tokens: int) -> float:
    """Concurrent requests of full length, as in vLLM's log ("Maximum concurrency for N tokens per request")."""
    return pool_blocks(layout, cache_gib) / startup_blocks_per_request(layout, max_model_len_tokens)


def logged_kv_tokens(layout: CacheLayout, blocks: int) -> int:
    """Tokens in vLLM 0.18's log line "GPU KV cache size" for a pool of `blocks`, regardless of --max-model-len.

    Source: vLLM 0.18.1, v1/core/kv_cache_utils.py: blocks divided by groups, times the attention block.
    """
    groups = attention_groups(layout) + window_groups(layout) + linear_groups(layout)
    smallest = window_block_tokens(layout) if layout.architecture.window_layers else attention_block_tokens(layout)
    if layout.architecture.full_attention_layers:
        smallest = min(smallest, attention_block_tokens(layout))
    return blocks // groups * smallest


def max_num_seqs_limit(layout: CacheLayout, cache_gib: float) -> int:
    """Maximum `--max-num-seqs` of later releases for a hybrid model: one recurrent-state block per sequence. vLLM 0.18 accepts more, never
    runs them, and reserves memory for their logits: `startup_logits_gib`.

    Measured: vLLM 0.20.2 did not start with 8192 for this model and reported about 810 state blocks with 42 GiB of cache.
    """
    return pool_blocks(layout, cache_gib)


def startup_logits_gib(*, max_num_seqs: int, max_num_batched_tokens: int, vocabulary: int, drafts: bool) -> float:
    """GiB of logits of all sequences in the startup step, which the cache does not get. CUDA graphs and linear-layer states do not grow
    with `--max-num-seqs`: graphs end at 512 tokens, states are blocks of the cache.
    """
    copies = LOGIT_COPIES_WITH_DRAFTS if drafts else LOGIT_COPIES
    return copies * min(max_num_seqs, max_num_batched_tokens) * vocabulary * 4 / GIB


def adapter_slots_gib(widths: AdapterWidths, *, slots: int, rank: int, ranks: int) -> float:
    """GiB of one GPU for LoRA adapters, allocated at startup for `--max-loras` adapters of `--max-lora-rank`, used or not. `ranks`: of
    tensor parallelism. CPU memory holds as many adapters again.

    Source: vLLM 0.18.1 and 0.33.0: lora/model_manager.py (_create_lora_modules: every linear layer and expert of the language model),
    lora/layers: create_lora_weights of each class: two zeros tensors of max_loras x rank x input and max_loras x output x rank in the
    model's 16-bit type; without --fully-sharded-loras only the half that the base matrix splits is split.
    """
    return slots * rank * (widths.whole + widths.split / ranks) * ADAPTER_VALUE_BYTES / GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """Memory of one GPU at an engine's startup, without weights and cache."""

    logits_gib: float
    """Logits of all sequences."""
    step_gib: float
    """Activations of the largest step at its widest layer, beyond the logits, which are allocated later."""
    driver_gib: float
    graphs_gib: float

    @property
    def activations_gib(self) -> float:
        """Step and driver."""
        return self.step_gib + self.driver_gib

    @property
    def total_gib(self) -> float:
        """All parts."""
        return self.logits_gib + self.activations_gib + self.graphs_gib


def startup(
    *, max_num_seqs: int, max_num_batched_tokens: int, vocabulary: int, step_width: int, drafts: bool
) -> StartUp:
    """Startup memory of an engine that is not calibrated. `step_width` is that of one GPU, in 16-bit values."""
    copies = LOGIT_COPIES_WITH_DRAFTS if drafts else SORTED_LOGIT_COPIES
    logits_gib = copies * min(max_num_seqs, max_num_batched_tokens) * vocabulary * 4 / GIB
    return StartUp(
        logits_gib=logits_gib,
        step_gib=max(0.0, max_num_batched_tokens * step_width * 2 / GIB - logits_gib),
        driver_gib=DRIVER_GIB,
        graphs_gib=GRAPHS_GIB + (DRAFT_GRAPHS_GIB if drafts else 0.0),
    )


def shortest_prompt_prefix_caching_can_hit(layout: CacheLayout) -> int | None:
    """Tokens of the shortest prompt that can hit the prefix cache; None without prefix caching.

    The last token is always computed, so a hit needs one token more than a block. MTP drops the last matched block.
    """
    if not layout.prefix_caching:
        return None
    return attention_block_tokens(layout) * (2 if layout.speculative_tokens else 1) + 1


def cached_prompt_tokens(layout: CacheLayout, prompt_tokens: int, *, block_tokens: int | None = None) -> int:
    """Tokens of a repeated prompt that come from the cache. `block_tokens` overrides vLLM's block size."""
    if not layout.prefix_caching:
        return 0
    block = block_tokens or attention_block_tokens(layout)
    matched_blocks = max(0, prompt_tokens - 1) // block
    return max(0, matched_blocks - (1 if layout.speculative_tokens else 0)) * block


def cache_gib_per_gpu(
    *,
    gpu_memory_utilization: float,
    logits_gib: float,
    gpu_memory_gib: float,
    weights_and_draft_gib: float = WEIGHTS_AND_DRAFT_GIB,
    overhead_gib: float = ENGINE_OVERHEAD_GIB,
) -> float:
    """Estimated GiB left for the cache on one GPU with the whole model, at least 0. For the article's fleet `logits_gib` is
    `startup_logits_gib`; otherwise both parts come from `startup`.
    """
    if not 0 < gpu_memory_utilization <= 1:
        raise ValueError(f"gpu_memory_utilization must be above 0 and at most 1, got {gpu_memory_utilization}")
    taken_gib = weights_and_draft_gib + logits_gib + overhead_gib
    return max(0.0, gpu_memory_gib * gpu_memory_utilization - taken_gib)


def _attention_layers(layout: CacheLayout) -> int:
    return layout.architecture.full_attention_layers + (
        layout.architecture.mtp_layers if layout.speculative_tokens else 0
    )


def _block_bytes(layout: CacheLayout) -> int:
    """Bytes of a block in one layer, the same for every kind."""
    if layout.architecture.full_attention_layers:
        return attention_block_tokens(layout) * kv_bytes_per_token(layout)
    return (layout.block_tokens or _BLOCK_TOKENS) * window_bytes_per_token(layout)


def _layers_per_group(layout: CacheLayout) -> int:
    architecture = layout.architecture
    kinds = [_attention_layers(layout), architecture.window_layers, architecture.linear_attention_layers]
    fewest, most = min(kind for kind in kinds if kind), max(kinds)
    return most if most < fewest * _NEARLY_AS_MANY else fewest


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
