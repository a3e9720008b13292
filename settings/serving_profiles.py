"""Profiles that nobody has measured on B200 yet: `tuned` for the article's benchmark, and three for real traffic.

Each says in what it leaves the record, why, and how sure that is. docs/profiles.md prints the same.
"""

from __future__ import annotations

from settings.article_profiles import (
    ARTICLE_CONCURRENCY,
    ARTICLE_CONTEXT_TOKENS,
    MODEL_ID,
    model,
    record,
)
from settings.engine import Engine, Speculative
from settings.profile import Difference, Profile

# Inferred: planner.memory: 2,364 blocks a GPU at utilization 0.92, 8 blocks for a request of 2,560 tokens, is 295;
# rounded down to a multiple of 16, the step of vLLM's captured graphs.
TUNED_SEQUENCES = 288
_TOKENS_PER_DECODE_STEP = 2  # with MTP-1: the token and its draft

_SPEECH = "tool calls and reasoning reach the client as fields of their own instead of tags in the text"


def tuned() -> Profile:
    """The record without what its configuration pays for and cannot use."""
    base = record()
    return Profile(
        name="tuned",
        title="the record's workload without the flags that cannot pay; unmeasured",
        engine=base.engine.but(
            {
                "enablePrefixCaching": False,
                "mambaCacheMode": None,
                "mambaBlockSize": None,
                "maxNumSeqs": TUNED_SEQUENCES,
                "maxCudagraphCaptureSize": TUNED_SEQUENCES * _TOKENS_PER_DECODE_STEP,
                "gdnPrefillBackend": "triton",
                "languageModelOnly": True,
                "apiServerCount": 8,
                "disableUvicornAccessLog": True,
            }
        ),
        model_id=MODEL_ID,
        model=model(),
        workload="article",
        context_tokens=ARTICLE_CONTEXT_TOKENS,
        concurrency_per_replica=ARTICLE_CONCURRENCY,
        differences=_tuned_differences(),
    )


def serve_chat() -> Profile:
    """Conversations of up to 8,192 tokens with tools and reasoning, text only."""
    return _serving(
        "serve-chat",
        "conversations of up to 8K tokens with tools and reasoning, text only; unmeasured",
        _serving_engine(max_model_len=8_192, max_num_batched_tokens=8_192, max_num_seqs=256, prefix_caching=True),
        workload="chat",
        # Inferred: planner.memory: 2,364 blocks a GPU, 15 for a request of 8,192 tokens, is 157; eight GPUs.
        concurrency=1_200,
        differences=(
            _context("8192", "a conversation with its retrieved excerpts; the article gives 4K to 8K for such work"),
            _batch("half the step: prompts of others stall an answer half as long (the record: ITL p99 620 ms)"),
            _sequences("256", "two tokens a sequence fill the 512 that CUDA graphs are captured for"),
            *_common_differences(),
            *_parsers(),
        ),
    )


def serve_code() -> Profile:
    """Coding assistants: prompts of up to 131,072 tokens that grow turn by turn, text only."""
    return _serving(
        "serve-code",
        "coding assistants with up to 128K tokens, tools and reasoning, text only; unmeasured",
        _serving_engine(max_model_len=131_072, max_num_batched_tokens=8_192, max_num_seqs=64, prefix_caching=True),
        workload="code",
        # Inferred: planner.memory: 92 blocks for a request of 131,072 tokens, 25 at once on a GPU; eight GPUs.
        concurrency=200,
        differences=(
            _context("131072", "the article: a coding assistant needs 32K to 128K; the cost is concurrency"),
            _batch("half the step, and a long prompt goes through in 16 pieces between which answers move on"),
            _sequences("64", "25 of full length fit a GPU, more when they are shorter; 64 keeps each one's share fair"),
            *_common_differences(),
            *_parsers(),
        ),
    )


def serve_batch() -> Profile:
    """Documents of up to 32,768 tokens, one answer each, nobody waiting; text only."""
    return _serving(
        "serve-batch",
        "documents of up to 32K tokens, one answer each, nobody waiting, text only; unmeasured",
        _serving_engine(max_model_len=32_768, max_num_batched_tokens=16_384, max_num_seqs=192, prefix_caching=False),
        workload="batch",
        # Inferred: planner.memory: 12 blocks for a document of 8,192 tokens, 197 at once on a GPU; eight GPUs.
        concurrency=1_500,
        differences=(
            _context("32768", "whole documents instead of excerpts"),
            _sequences("192", "documents of 8K tokens that fit a GPU at once; 87 of full length"),
            Difference(
                setting="engine.enablePrefixCaching",
                record="true",
                here="false",
                why="documents differ from their first block on; a shared instruction of under 3,169 tokens cannot hit",
                evidence="inferred",
            ),
            *_no_mamba_flags(),
            *_common_differences(),
            _reasoning(),
        ),
        tools=False,
    )


def _serving(
    name: str,
    title: str,
    engine: Engine,
    *,
    workload: str,
    concurrency: int,
    differences: tuple[Difference, ...],
    tools: bool = True,
) -> Profile:
    spoken = engine.but({"reasoningParser": "qwen3", **({"toolCallParser": "qwen3_coder"} if tools else {})})
    assert engine.max_model_len is not None
    return Profile(
        name=name,
        title=title,
        engine=spoken,
        model_id=MODEL_ID,
        model=model(),
        workload=workload,
        context_tokens=engine.max_model_len,
        concurrency_per_replica=concurrency,
        differences=differences,
    )


def _serving_engine(
    *, max_model_len: int, max_num_batched_tokens: int, max_num_seqs: int, prefix_caching: bool
) -> Engine:
    return Engine(
        data_parallel_size=8,
        max_model_len=max_model_len,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        kv_cache_dtype="fp8_e4m3",
        gpu_memory_utilization=0.92,
        enable_prefix_caching=prefix_caching,
        enable_chunked_prefill=True,
        attention_backend="FLASHINFER",
        optimization_level=3,
        speculative=Speculative(method="mtp", num_speculative_tokens=1),
        mamba_cache_mode="align" if prefix_caching else None,
        mamba_block_size=8 if prefix_caching else None,
        gdn_prefill_backend="triton",
        language_model_only=True,
        api_server_count=8,
        disable_uvicorn_access_log=True,
        estimate_cudagraphs=True,
    )


def _context(here: str, why: str) -> Difference:
    return Difference(setting="engine.maxModelLen", record="2560", here=here, why=why, evidence="inferred")


def _batch(why: str) -> Difference:
    return Difference(setting="engine.maxNumBatchedTokens", record="16384", here="8192", why=why, evidence="inferred")


def _sequences(here: str, why: str) -> Difference:
    return Difference(setting="engine.maxNumSeqs", record="8192", here=here, why=why, evidence="inferred")


def _no_mamba_flags() -> tuple[Difference, ...]:
    return (
        Difference(
            setting="engine.mambaCacheMode",
            record="align",
            here="left out",
            why="it keeps states for prefix caching; without prefix caching vLLM sets it to none and warns",
            evidence="inferred",
        ),
        Difference(
            setting="engine.mambaBlockSize",
            record="8",
            here="left out",
            why="without prefix caching vLLM refuses to start with it; with it, vLLM replaces 8 by 1,584",
            evidence="inferred",
        ),
    )


def _common_differences() -> tuple[Difference, ...]:
    return (
        Difference(
            setting="engine.gdnPrefillBackend",
            record="left out",
            here="triton",
            why=(
                "the FlashInfer kernel compiled for more than 5 minutes at first start (H200). On B200 0.18.1 has no "
                "such kernel and takes triton anyway: the flag holds that choice on other GPUs and later releases"
            ),
            evidence="measured there",
        ),
        Difference(
            setting="engine.languageModelOnly",
            record="left out",
            here="true",
            why="text only: the vision tower's weights and its share of the memory profiling go to the cache",
            evidence="unmeasured",
        ),
        Difference(
            setting="engine.apiServerCount",
            record="left out",
            here="8",
            why=(
                "eight processes for HTTP and tokenizing in front of eight engines. `vllm serve` starts as many by "
                "itself, the other entry point one; the article's 6 s to the first token, against 0.56 s without HTTP "
                "on an H200 at the same load per GPU, point at the front end"
            ),
            evidence="unmeasured",
        ),
        Difference(
            setting="engine.disableUvicornAccessLog",
            record="left out",
            here="true",
            why="no log line for each of about 83 requests a second and node: less front-end work, less to store",
            evidence="inferred",
        ),
    )


def _reasoning() -> Difference:
    return Difference(
        setting="engine.reasoningParser", record="left out", here="qwen3", why=_SPEECH, evidence="inferred"
    )


def _parsers() -> tuple[Difference, ...]:
    return (
        _reasoning(),
        Difference(
            setting="engine.toolCallParser", record="left out", here="qwen3_coder", why=_SPEECH, evidence="inferred"
        ),
    )


def _tuned_differences() -> tuple[Difference, ...]:
    return (
        Difference(
            setting="engine.enablePrefixCaching",
            record="true",
            here="false",
            why=(
                "a prompt needs 3,169 tokens to hit and 2,560 is the limit: no hit in the article, 0.0 % in the trial. "
                "Off, the trial's start-up estimate rose from 168 to 231 requests of full length a GPU; tok/s were not "
                "compared"
            ),
            evidence="measured there",
        ),
        *_no_mamba_flags(),
        Difference(
            setting="engine.maxNumSeqs",
            record="8192",
            here=str(TUNED_SEQUENCES),
            why=(
                "a GPU's memory holds 295 requests of 2,560 tokens; the offered 250 fit. Nothing above a few hundred "
                "ever ran, and vLLM 0.20.2 refuses 8192 at start-up"
            ),
            evidence="inferred",
        ),
        Difference(
            setting="engine.maxCudagraphCaptureSize",
            record="left out (512)",
            here=str(TUNED_SEQUENCES * _TOKENS_PER_DECODE_STEP),
            why=(
                "with MTP-1 a decode step has 2 tokens a sequence, so 512 covers 256 sequences: exactly the peak of "
                "251 to 256 that the article saw. Any imbalance between ranks beyond that ran without a graph"
            ),
            evidence="inferred",
        ),
        *_common_differences(),
        Difference(
            setting="resources.cpu",
            record="not published",
            here="160 vCPU, the default of every profile here",
            why=(
                "an engine keeps 1.1 to 1.3 cores busy (H200); eight of them, eight API servers and a coordinator need "
                "more than 16"
            ),
            evidence="measured there",
        ),
        Difference(
            setting="compile caches",
            record="not published",
            here="one writable volume for vLLM, Inductor, Triton and FlashInfer, in every profile here",
            why=(
                "start to ready took 172 to 229 s with cold caches and 69 s with warm ones (H200); a container restart "
                "stays warm"
            ),
            evidence="measured there",
        ),
    )
