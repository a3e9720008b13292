"""Section `server.engine`: vLLM's options as typed, documented values.

A field left at None renders no flag, and vLLM's default (in the docstring) applies. Flags are rendered in the order of the fields.
This module validates each value alone; facts/lessons/ checks values against each other, the traffic and the release.

Source of options, choices, ranges and defaults, unless stated otherwise: the argument parser of vLLM 0.18.1. Other releases are in
`facts.releases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from facts.engines import LONGEST_CONTEXT_TOKENS, LONGEST_YARN_TOKENS, Release, Scalar
from facts.machines import MACHINES
from facts.releases import CURRENT, at, number_of
from settings.sections import engine_settings
from settings.sections.engine_extras import check_extra_args, check_extra_env
from settings.sections.engine_settings import ALSO_EXTRA as ALSO_EXTRA
from settings.sections.engine_settings import ENVIRONMENT as ENVIRONMENT
from settings.sections.engine_settings import environment_text as environment_text
from settings.sections.engine_settings import long_name as long_name
from settings.sections.parser_names import ReasoningParser, ToolCallParser
from settings.sections.section import Section, like

Switch = bool | None
"""True renders `--x`, False `--no-x`, None nothing."""

Count = Annotated[int, Field(ge=1, le=65_536)]
Ranks = Annotated[int, Field(ge=1, le=max(machine.gpus for machine in MACHINES.values()))]
KvCacheDtype = Literal["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4"]
AttentionBackend = Literal["FLASHINFER", "FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION"]
MoeBackend = Literal[
    "auto", "triton", "deep_gemm", "cutlass", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl", "marlin"
]


def _not_set_elsewhere(arguments: tuple[str, ...]) -> tuple[str, ...]:
    own = [field for field in flag_fields() if field not in ALSO_EXTRA]
    fields = {long_name(field): Engine.model_fields[field].alias or field for field in own}
    return check_extra_args(arguments, fields)


class Speculative(Section):
    """Speculative decoding (`--speculative-config`)."""

    method: Literal["mtp", "ngram", "suffix"] = "mtp"
    """Draft method. `mtp` uses the checkpoint's multi-token-prediction layer and needs no second model; Qwen3.5-27B has one such
    layer."""
    num_speculative_tokens: Annotated[int, Field(ge=1, le=16)]
    """Draft tokens per step. Measured by the article: 96,023 tok/s with 1, 90,567 with 2, 66,021 without; 5 crashed on the second
    run."""


MOST_YARN = 4.0
"""Largest factor. Source: as of `LONGEST_YARN_TOKENS`."""


class Yarn(Section):
    """A longer context by YaRN (`--hf-overrides`), for Qwen3.5 with its own context of 262,144 tokens. It is static: positions of short
    prompts are scaled too, which may lower the quality of their responses.
    """

    factor: Annotated[float, Field(gt=1, le=MOST_YARN)]
    """How many times the original context. Published by the model's authors: 4.0 for 1,010,000 tokens. Use the smallest that is enough."""

    @property
    def longest_context_tokens(self) -> int:
        """Longest context with this factor, at most the published 1,010,000."""
        return min(self._scaled_tokens, LONGEST_YARN_TOKENS)

    @property
    def overrides(self) -> dict[str, Any]:
        """`--hf-overrides`, which vLLM merges with the other keys of `rope_parameters`.

        `max_position_embeddings` is scaled too: otherwise 0.33.0 accepts no longer context without VLLM_ALLOW_LONG_MAX_MODEL_LEN, which
        switches its check of the length off.
        """
        rope = {
            "rope_type": "yarn",
            "factor": self.factor,
            "original_max_position_embeddings": LONGEST_CONTEXT_TOKENS,
        }
        return {"text_config": {"max_position_embeddings": self._scaled_tokens, "rope_parameters": rope}}

    @property
    def _scaled_tokens(self) -> int:
        return int(self.factor * LONGEST_CONTEXT_TOKENS)


class Engine(Section):
    """Options of one vLLM server: parallelism, cache, batching, responses."""

    version: Annotated[
        str, like(r"^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$", "a release with three numbers, such as 0.18.1")
    ] = CURRENT
    """vLLM release of the image, in three numbers; it determines options and defaults. Known: 0.18.0, 0.18.1, 0.33.0; any other
    needs `server.image` with tag and digest. Default: the profile's release (0.18.0 for the article's profiles, 0.33.0 for the others),
    or that of image.tag."""

    data_parallel_size: Ranks = 1
    """`--data-parallel-size`: engines in the pod, each with the whole model. Default 1. Measured: 74,848 tok/s with 8, 22,300 with
    one engine over 8 GPUs."""
    tensor_parallel_size: Ranks = 1
    """`--tensor-parallel-size`: GPUs of one engine, for models that do not fit one GPU. Default 1. Must divide the attention heads
    (24 in Qwen3.5-27B). With data parallelism the product is at most 8."""
    enable_expert_parallel: Switch = None
    """`--enable-expert-parallel`: spread the experts of a mixture-of-experts model over the ranks. Default off; not allowed for a
    dense model."""
    moe_backend: MoeBackend | None = None
    """`--moe-backend`: kernels for the experts of a mixture-of-experts model; no effect on a dense model. Default auto: on B200
    FlashInfer's TRT-LLM kernels (BF16: since 0.33.0), which write into the image and cannot start with a read-only file system. Use
    flashinfer_cutlass for NVFP4, triton for BF16, FP8 and MXFP4; 0.18.1 ignores it for MXFP4."""
    max_model_len: Annotated[int, Field(ge=1, le=LONGEST_YARN_TOKENS)] | None = None
    """`--max-model-len`: longest prompt plus output in tokens. Default: the model's 262,144; more needs `yarn`. Measured with
    1,500-token requests: 131,072 filled 99.4 % of the cache and left 138 requests waiting; 4,096 gave 85,509 tok/s instead of
    74,848."""
    yarn: Yarn | None = None
    """YaRN for prompts beyond the model's own context, with maxModelLen. Default: none."""
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=LONGEST_CONTEXT_TOKENS)] | None = None
    """`--max-num-batched-tokens`: maximum tokens one engine computes in a step, at least maxNumSeqs. Default on B200 8192, since
    0.28 16384. A higher value speeds up prefill and delays running responses by longer steps."""
    max_num_seqs: Count | None = None
    """`--max-num-seqs`: maximum sequences each engine runs concurrently. Default 1024 on B200. Startup reserves 7 MB of the cache
    for each with MTP, 3.5 MB without. Measured: 512 on one engine kept throughput flat from 500 to 1,000 requests in flight. Memory
    usually limits it further: to about 300 for Qwen3.5-27B at 2,560 tokens."""
    kv_cache_dtype: KvCacheDtype | None = None
    """`--kv-cache-dtype`. Default auto: the model's bfloat16. Measured: fp8_e4m3 tripled the cache (959K instead of 288K tokens per
    engine). nvfp4 (4 bits and scales, 9/16 of fp8) needs 0.33.0 and FlashInfer; no accuracy figure is published for Qwen3.5."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """`--gpu-memory-utilization`: share of each GPU's memory for weights, cache and activations. Default 0.9, since 0.20 0.92.
    Measured: 0.95 with a bfloat16 cache and MTP failed 908 requests; with an fp8 cache it gained nothing over 0.92 (95,391 and 96,023
    tok/s)."""
    enable_prefix_caching: Switch = None
    """`--enable-prefix-caching`: reuse the cache of prompts with the same beginning. Default on; before 0.28 off for hybrid models
    such as Qwen3.5. On hybrid models it corrupts responses with MTP, a block is 1,584 tokens (MTP-1, fp8), and with MTP no prompt
    below 3,169 tokens can hit."""
    enable_chunked_prefill: Switch = None
    """`--enable-chunked-prefill`: split long prompts over several steps. Default on; required for aligned prefix caching of a hybrid
    model."""
    prefill_schedule_interval: Annotated[int, Field(ge=1, le=1_024)] | None = None
    """`--prefill-schedule-interval`, with 0.33.0: prompts join only every so many steps, so that long gaps between tokens become rare,
    not shorter, and first tokens come later. Default 1. No effect while requests wait for room. Measured (one H200,
    dummy weights): 16 gave 1.45 times the tok/s at 768 tokens in and 384 out on average, 1.30 with MTP-1, and 0.91 times at 5,000 in
    and 250 out. Try 16 for short prompts, and leave it off for long ones (docs/prefill-apart.md)."""
    attention_backend: AttentionBackend | None = None
    """`--attention-backend`. Default: chosen by vLLM, FLASHINFER first on B200."""
    optimization_level: Annotated[int, Field(ge=0, le=3)] | None = None
    """`-O`: compilation effort, 0 to 3. Default 2. In 0.18.1 level 3 is documented as equal to 2."""
    speculative: Speculative | None = None
    """`--speculative-config`. Default: none."""

    mamba_cache_mode: Literal["align", "all", "none"] | None = None
    """`--mamba-cache-mode`: which states of linear layers prefix caching keeps. Default none. Qwen3.5 supports `align`; `all` falls
    back to it with a warning and was removed in 0.33. Without prefix caching vLLM sets it to none."""
    mamba_block_size: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """`--mamba-block-size` in tokens, with prefix caching only; otherwise vLLM does not start. The article uses 8, which aligned
    caching replaces with the attention block (1,584)."""
    gdn_prefill_backend: Literal["flashinfer", "triton", "cutedsl"] | None = None
    """`--gdn-prefill-backend`: prefill kernel of Gated-DeltaNet layers. Default: flashinfer on Hopper, triton elsewhere, since 0.22
    flashinfer on B200 too. cutedsl: since 0.22. Measured (H200): flashinfer compiled for more than 5 minutes at first start."""
    max_cudagraph_capture_size: Annotated[int, Field(ge=1, le=8_192)] | None = None
    """`--max-cudagraph-capture-size` in tokens: largest step that runs as a captured CUDA graph. Default: 2 x maxNumSeqs x (1 + draft
    tokens), at most 512, since 0.28 1,024 on B200. With MTP-1 a decode step has 2 tokens per sequence, so 512 covers 256 sequences."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    """`--seed`. Default 0."""
    language_model_only: Switch = None
    """`--language-model-only`: do not load the vision parts of Qwen3.5. Default off."""

    api_server_count: Annotated[int, Field(ge=1, le=64)] | None = None
    """`--api-server-count`: processes for HTTP and tokenizing. Default with `vllm serve`: one per data-parallel rank."""
    served_model_name: (
        Annotated[str, like(r"^[A-Za-z0-9_./:-]{1,200}$", "1 to 200 letters, digits and _ . / : -")] | None
    ) = None
    """`--served-model-name`: model name in requests, and label of every metric. Default: the model's repository id."""
    reasoning_parser: ReasoningParser | None = None
    """`--reasoning-parser`: return the text before `</think>` in a separate field. Default: as part of the response. Names depend on
    the release (facts/data/parsers.yaml); use qwen3 for Qwen3.5."""
    tool_call_parser: ToolCallParser | None = None
    """`--tool-call-parser` with `--enable-auto-tool-choice`. Default: tool calls stay text. Names depend on the release. For Qwen3.5
    use qwen3_coder, as published commands do; qwen3_xml reads the same format; hermes is for older Qwen models."""
    thinking: Switch = None
    """Whether a chat request thinks by default (`--default-chat-template-kwargs`). Default: the model's template."""
    disable_uvicorn_access_log: Switch = None
    """`--disable-uvicorn-access-log`: no log line per request. Default off. A node serves about 83 requests a second."""

    estimate_cudagraphs: bool | None = None
    """VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS: count the CUDA graphs in gpuMemoryUtilization. Default off before 0.20: the graphs
    need additional memory, and 0.92 or more risks running out of memory during capture."""
    use_deep_gemm: bool | None = None
    """VLLM_USE_DEEP_GEMM. Default on; 0.18.1 and later disable it for Qwen3.5 on B200, where it reduces accuracy. Without it FP8
    products are slow on B200 before 0.31, and on Hopper since 0.24."""

    extra_args: Annotated[tuple[str, ...], AfterValidator(_not_set_elsewhere)] = ()
    """Flags that have no field in this section, one string each: `--name` or `--name=value`."""
    extra_env: Annotated[dict[str, str], AfterValidator(check_extra_env)] = Field(default_factory=dict)
    """Environment variables that have no field in this section. Secrets and variables that the server sets are not allowed."""

    @property
    def release(self) -> Release:
        """The release that determines options and defaults."""
        return at(number_of(self.version))

    @property
    def gpus(self) -> int:
        """GPUs that the engines use."""
        return self.data_parallel_size * self.tensor_parallel_size

    @property
    def api_servers(self) -> int:
        """API server processes in front of the engines."""
        return self.api_server_count or self.data_parallel_size

    @property
    def speculative_tokens(self) -> int:
        """Draft tokens per step; 0 without speculation."""
        return self.speculative.num_speculative_tokens if self.speculative else 0

    @property
    def context_tokens(self) -> int:
        """Longest prompt plus output, by default vLLM's."""
        return self.max_model_len or LONGEST_CONTEXT_TOKENS

    @property
    def gpu_memory_share(self) -> float:
        """Share of a GPU's memory, by default vLLM's."""
        return self.gpu_memory_utilization or self.release.gpu_memory_share

    def but(self, changes: Mapping[str, Any]) -> Engine:
        """The engine with `changes` (camelCase names). Raises pydantic.ValidationError."""
        return Engine.written({**self.model_dump(by_alias=True, exclude_unset=True), **changes})


def flag_fields() -> tuple[str, ...]:
    """Names of the fields that are flags, in the order of rendering."""
    return tuple(name for name in Engine.model_fields if engine_settings.is_flag(name))


def option_value(field: str, value: Any) -> Any:
    """A setting as the value of its flag: a number, a text, a switch, or an object for JSON."""
    if field == "thinking":
        return {"enable_thinking": value}
    if isinstance(value, Yarn):
        return value.overrides
    return value.model_dump() if isinstance(value, Speculative) else value


def effective_flags(engine: Engine) -> dict[str, Scalar]:
    """Flags that affect performance, as in `settings.sections.engine_settings.effective_flags`."""
    return engine_settings.effective_flags(engine.model_dump())


def effective_environment(engine: Engine) -> dict[str, str]:
    """Environment variables that affect performance, by name: typed and extra ones."""
    return engine_settings.effective_environment(engine.model_dump())
