"""What a stack may tell the vLLM engine: vLLM's options as typed, documented values.

A field left at None writes no flag, and vLLM's own default (named in the docstring) applies. The order of the fields is
the order in which the flags are rendered: the article's listing first. Only what one value alone can get wrong is
refused here; settings/rules/ judges values against each other and against the traffic.

Source of options, choices, ranges and defaults, where nothing else is named: the argument parser of vLLM 0.18.1. What a choice or
default is in another release is in `facts.releases`; settings/rules/ refuses what the chosen release does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from facts import parsers
from facts.engines import DEFAULT, LONGEST_CONTEXT_TOKENS, Release, Scalar
from facts.machines import MACHINES
from facts.releases import at, number_of
from settings.sections import engine_settings
from settings.sections.engine_extras import check_extra_args, check_extra_env
from settings.sections.engine_settings import ENVIRONMENT as ENVIRONMENT
from settings.sections.engine_settings import environment_text as environment_text
from settings.sections.engine_settings import long_name as long_name
from settings.sections.section import Section, like

Switch = bool | None
"""True writes `--x`, False writes `--no-x`, None writes nothing."""

Count = Annotated[int, Field(ge=1, le=65_536)]
Ranks = Annotated[int, Field(ge=1, le=max(machine.gpus for machine in MACHINES.values()))]
KvCacheDtype = Literal["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]
AttentionBackend = Literal["FLASHINFER", "FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION"]
MoeBackend = Literal[
    "auto", "triton", "deep_gemm", "cutlass", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl", "marlin"
]
LoadFormat = Literal["auto", "safetensors", "dummy", "fastsafetensors", "runai_streamer", "runai_streamer_sharded"]


def _parser(kind: parsers.Kind) -> AfterValidator:
    """The name of a parser that some release of vLLM has; settings/checks/model.py holds it against the stack's own release."""

    def known(name: str) -> str:
        if name not in (names := parsers.of_any_release(kind)):
            raise ValueError(f"one of {', '.join(sorted(names))}")
        return name

    return AfterValidator(known)


def _not_set_elsewhere(arguments: tuple[str, ...]) -> tuple[str, ...]:
    fields = {long_name(field): Engine.model_fields[field].alias or field for field in flag_fields()}
    return check_extra_args(arguments, fields)


class Speculative(Section):
    """Speculative decoding (`--speculative-config`)."""

    method: Literal["mtp", "ngram", "suffix"] = "mtp"
    """`mtp`: the checkpoint's own multi-token-prediction layer drafts; needs no second model. Qwen3.5-27B has one such
    layer."""
    num_speculative_tokens: Annotated[int, Field(ge=1, le=16)]
    """Draft tokens per step. Measured in the article: 1 gave 96,023 tok/s, 2 gave 90,567, none 66,021; 5 crashed on its
    second run."""


class Engine(Section):
    """One vLLM server: how it splits over the pod's GPUs, what it caches, how it batches, what it answers."""

    version: Annotated[str, like(r"^[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}$", "a release, such as 0.18.1")] = DEFAULT
    """vLLM release of the image; options and defaults are read as that release has them. Known are 0.18.0, 0.18.1 and
    0.33.0; another one needs `server.image` with tag and digest. Default: the profile's, or the one that image.tag names."""
    entrypoint: Literal["serve", "module"] = "serve"
    """`serve`: `vllm serve`, one API server per data-parallel rank. `module`: `python3 -m
    vllm.entrypoints.openai.api_server`, always one API server, whatever apiServerCount says. The article does not say
    which it used; its image starts `vllm serve`."""

    data_parallel_size: Ranks = 1
    """`--data-parallel-size`: engines in the pod, each with the whole model. Default 1. Measured: 8 gave 74,848 tok/s
    where one engine over 8 GPUs gave 22,300."""
    tensor_parallel_size: Ranks = 1
    """`--tensor-parallel-size`: GPUs one engine is split over. Default 1. For models that do not fit one GPU; must
    divide the heads (24 in Qwen3.5-27B). With data parallelism the product is at most 8."""
    enable_expert_parallel: Switch = None
    """`--enable-expert-parallel`: spread a mixture-of-experts model's experts over the ranks. Default off; a dense
    model refuses it."""
    moe_backend: MoeBackend | None = None
    """`--moe-backend`: kernels for the experts of a mixture-of-experts model. Default auto: on B200 FlashInfer's TRT-LLM
    ones for FP8 and NVFP4, which write into the image and so cannot start here. flashinfer_cutlass runs NVFP4, triton
    FP8; a dense model ignores it."""
    max_model_len: Annotated[int, Field(ge=1, le=LONGEST_CONTEXT_TOKENS)] | None = None
    """`--max-model-len`: longest prompt plus answer, in tokens. Default: the model's 262,144. Measured: 131,072 for
    1,500-token requests left 99.4 % of the cache taken with 138 requests waiting; 4,096 gave 85,509 tok/s instead of
    74,848."""
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=LONGEST_CONTEXT_TOKENS)] | None = None
    """`--max-num-batched-tokens`: tokens one engine computes in one step. Default on B200 8192, from 0.28 on 16384. More fills the GPU
    while prompts are read, and makes the answers in flight wait longer for that step. At least maxNumSeqs."""
    max_num_seqs: Count | None = None
    """`--max-num-seqs`: sequences each engine may run at once. Default 1024 on B200. The start-up step takes 7 MB of
    the cache for each with MTP, 3.5 without, whether it ever runs or not. Measured: 512 for one engine kept
    throughput flat from 500 to 1,000 requests in flight. Memory usually ends it far earlier: about 300 for Qwen3.5-27B
    at 2,560 tokens."""
    kv_cache_dtype: KvCacheDtype | None = None
    """`--kv-cache-dtype`. Default auto: the model's bfloat16. Measured: fp8_e4m3 tripled the cache (959K against 288K
    tokens an engine)."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """`--gpu-memory-utilization`: share of each GPU's memory for weights, cache and activations. Default 0.9, from 0.20 on 0.92. Measured:
    0.95 with a bfloat16 cache and MTP failed 908 requests; with an fp8 cache it gained nothing over 0.92 (95,391
    against 96,023 tok/s)."""
    enable_prefix_caching: Switch = None
    """`--enable-prefix-caching`: reuse the cache of prompts that begin alike. Default: on; before
    0.28 off for hybrid models such as Qwen3.5, whose answers it corrupts with MTP. There a block is 1,584 tokens (MTP-1,
    fp8), and with MTP no prompt below 3,169 tokens can hit."""
    prefix_caching_hash_algo: Literal["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] | None = None
    """`--prefix-caching-hash-algo`. Default sha256. The xxhash variants are faster and not collision-proof: not between
    tenants."""
    enable_chunked_prefill: Switch = None
    """`--enable-chunked-prefill`: split long prompts over steps. Default on; aligned prefix caching of a hybrid model
    requires it."""
    attention_backend: AttentionBackend | None = None
    """`--attention-backend`. Default: chosen by vLLM, which takes FLASHINFER first on B200."""
    optimization_level: Annotated[int, Field(ge=0, le=3)] | None = None
    """`-O`: compilation effort, 0 to 3. Default 2. In 0.18.1 level 3 is documented as the same as 2."""
    speculative: Speculative | None = None
    """`--speculative-config`. Default: none."""

    mamba_cache_mode: Literal["align", "all", "none"] | None = None
    """`--mamba-cache-mode`: which states of linear layers are kept for prefix caching. Default none. Qwen3.5 knows
    `align`; `all` falls back to it with a warning and is gone in 0.33, and without prefix caching vLLM sets it to none."""
    mamba_block_size: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """`--mamba-block-size`, in tokens: only with prefix caching, a start-up error without. The article writes 8;
    aligned caching replaces it by the attention block (1,584)."""
    mamba_ssm_cache_dtype: Literal["auto", "float32", "float16", "bfloat16"] | None = None
    """`--mamba-ssm-cache-dtype`: type of the recurrent state. Default auto: float32 for Qwen3.5. float16, and
    from 0.22 on bfloat16, halve the state; no accuracy figure is published."""
    gdn_prefill_backend: Literal["flashinfer", "triton", "cutedsl"] | None = None
    """`--gdn-prefill-backend`: kernel that reads prompts in Gated-DeltaNet layers. Default: flashinfer on Hopper,
    triton elsewhere. Measured (H200): flashinfer compiled for more than 5 minutes at first start; on B200 0.18.1 has no
    flashinfer kernel and uses triton; from 0.22 on B200 takes flashinfer, too, and cutedsl is a choice."""
    block_size: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """`--block-size`: tokens in one cache block. Default: chosen by vLLM, which raises a value too small for a hybrid
    model."""
    max_cudagraph_capture_size: Annotated[int, Field(ge=1, le=8_192)] | None = None
    """`--max-cudagraph-capture-size`, in tokens: the largest step that runs as a captured CUDA graph. Default: 2 x
    maxNumSeqs x (1 + draft tokens), at most 512, from 0.28 on B200 1,024. With MTP-1 a decode step has 2 tokens a sequence, so the default
    covers 256 running sequences."""
    enforce_eager: Switch = None
    """`--enforce-eager`: no CUDA graphs and no compilation; for debugging. Default off."""
    performance_mode: Literal["balanced", "interactivity", "throughput"] | None = None
    """`--performance-mode`. Default balanced; throughput doubles vLLM's defaults of the two batch limits above."""
    async_scheduling: Switch = None
    """`--async-scheduling`: plan the next step while the GPU computes this one. Default: on for every profile here."""
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    """`--seed`. Default 0."""

    load_format: LoadFormat | None = None
    """`--load-format`. Default auto: safetensors. `dummy` makes random weights, for rehearsals without a model."""
    safetensors_load_strategy: Literal["lazy", "eager", "prefetch", "torchao"] | None = None
    """`--safetensors-load-strategy`. Default lazy: memory-mapped. eager and prefetch are meant for network file
    systems."""
    language_model_only: Switch = None
    """`--language-model-only`: leave out the image and video parts of Qwen3.5, a vision model. Default off."""

    api_server_count: Annotated[int, Field(ge=1, le=64)] | None = None
    """`--api-server-count`: processes that speak HTTP and tokenize. Default under `vllm serve`: one per data-parallel
    rank."""
    served_model_name: (
        Annotated[str, like(r"^[A-Za-z0-9_./:-]{1,200}$", "1 to 200 letters, digits and _ . / : -")] | None
    ) = None
    """`--served-model-name`: the name clients ask for, and the label of every metric. Default: the model's repository
    id."""
    reasoning_parser: Annotated[str, _parser("reasoning")] | None = None
    """`--reasoning-parser`: put the text before `</think>` into a field of its own. Default: left in the answer.
    Names are the release's own (facts/data/parsers.yaml); qwen3 knows that Qwen3.5's template writes `<think>` into the prompt."""
    tool_call_parser: Annotated[str, _parser("tools")] | None = None
    """`--tool-call-parser` with `--enable-auto-tool-choice`, by the release's names. Default: tool calls stay text. qwen3_coder is what
    published commands for Qwen3.5 use; qwen3_xml reads the same format; hermes is the older Qwen models' JSON."""
    thinking: Switch = None
    """Whether a chat request thinks when it does not say so itself (`--default-chat-template-kwargs`). Default: the
    model's template."""
    shutdown_timeout_seconds: Annotated[int, Field(ge=0, le=3_600)] | None = None
    """`--shutdown-timeout`, in seconds: how long running requests may finish after SIGTERM. Default 0: they are
    aborted. It works with one API server; with several the streams end first, and the pod's preStop pause is what saves
    them."""
    disable_uvicorn_access_log: Switch = None
    """`--disable-uvicorn-access-log`: no log line per request. Default off. A node answers about 83 requests a
    second."""
    enable_log_requests: Switch = None
    """`--enable-log-requests`: log every prompt, which puts users' texts into the logs. Default off."""
    enable_mfu_metrics: Switch = None
    """`--enable-mfu-metrics`: estimated FLOPS and bytes at /metrics; rough for hybrid models. Default off."""
    kv_cache_metrics: Switch = None
    """`--kv-cache-metrics`: lifetime and reuse of cache blocks at /metrics. Default off."""

    estimate_cudagraphs: bool | None = None
    """VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS: take the CUDA graphs' memory out of the cache's share. Default off before
    0.20: the graphs come on top, and 0.92 or more risks running out of memory while they are captured."""
    use_deep_gemm: bool | None = None
    """VLLM_USE_DEEP_GEMM. Default on, and 0.18.1 switches it off for Qwen3.5 on B200 by itself, because it costs
    accuracy there."""
    engine_ready_timeout_seconds: Annotated[int, Field(ge=60, le=86_400)] | None = None
    """VLLM_ENGINE_READY_TIMEOUT_S, in seconds: how long the API servers wait for the engines. Default: the server's
    startupMinutes; vLLM's own 600 s is as long as the article's whole start-up."""

    extra_args: Annotated[tuple[str, ...], AfterValidator(_not_set_elsewhere)] = ()
    """Flags without a field here, one string each: `--name` or `--name=value`. A flag that has a field is refused."""
    extra_env: Annotated[dict[str, str], AfterValidator(check_extra_env)] = Field(default_factory=dict)
    """Environment variables without a field here. Names the server sets itself, and secrets, are refused."""

    @property
    def release(self) -> Release:
        """The release by which options and defaults are read."""
        return at(number_of(self.version))

    @property
    def gpus(self) -> int:
        """GPUs that the engines use."""
        return self.data_parallel_size * self.tensor_parallel_size

    @property
    def api_servers(self) -> int:
        """API server processes in front of the engines."""
        if self.entrypoint == "module":
            return 1
        return self.api_server_count or self.data_parallel_size

    @property
    def speculative_tokens(self) -> int:
        """Draft tokens per step; 0 without speculation."""
        return self.speculative.num_speculative_tokens if self.speculative else 0

    @property
    def context_tokens(self) -> int:
        """Longest prompt plus answer, vLLM's default where none is written."""
        return self.max_model_len or LONGEST_CONTEXT_TOKENS

    @property
    def gpu_memory_share(self) -> float:
        """Share of a GPU's memory, vLLM's default where none is written."""
        return self.gpu_memory_utilization or self.release.gpu_memory_share

    @property
    def text_only(self) -> bool:
        """Whether images and video are refused."""
        return self.language_model_only is True

    def but(self, changes: Mapping[str, Any]) -> Engine:
        """Lay `changes` (camelCase names) over this engine. Raises pydantic.ValidationError."""
        return Engine.model_validate({**self.model_dump(by_alias=True, exclude_unset=True), **changes})


def flag_fields() -> tuple[str, ...]:
    """Names of the fields that are flags, in the order they are rendered."""
    return tuple(name for name in Engine.model_fields if engine_settings.is_flag(name))


def effective_flags(engine: Engine) -> dict[str, Scalar]:
    """Flags that bear on speed, as `settings.sections.engine_settings.effective_flags` gives them."""
    return engine_settings.effective_flags(engine.model_dump())


def effective_environment(engine: Engine) -> dict[str, str]:
    """Environment variables that bear on speed, by name: the engine's typed ones and the extra ones."""
    return engine_settings.effective_environment(engine.model_dump())
