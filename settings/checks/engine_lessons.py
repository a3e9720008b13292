"""The article's lessons about engine settings: parallelism, speculation, memory, prefix caching, sequences, context."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from facts import memory
from facts.engines import DEFAULT_SEQUENCES
from settings.problems import Problem
from settings.rules.limits import CONTEXT_SLACK, CRASH_UTILISATION, GRAPH_RISK_UTILISATION
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

Judged = Iterator[tuple[tuple[str, ...], Problem]]
"""A problem, and the engine settings (camelCase) that lead to it."""


def engine_key(name: str) -> str:
    """Path of an engine setting in the stack file."""
    return key(f"server.engine.{name}")


def engine_lessons(settings: Settings) -> Judged:
    """Every lesson about engine settings that these settings repeat."""
    yield from _parallelism(settings)
    yield from _speculation(settings)
    yield from _gpu_memory(settings)
    yield from _prefix_caching(settings)
    yield from _sequences(settings)
    yield from _context(settings)


def _parallelism(settings: Settings) -> Judged:
    engine, model = settings.serving.engine, settings.serving.model
    room_gib = memory.cache_gib_per_gpu(
        gpu_memory_utilization=engine.gpu_memory_share,
        weights_and_draft_gib=model.size_gb * 1e9 / memory.GIB,
    )
    if engine.tensor_parallel_size > 1 and room_gib > 0:
        yield (
            ("tensorParallelSize", "dataParallelSize"),
            Problem(
                id="tp8-on-one-gpu-model",
                path=engine_key("tensorParallelSize"),
                value=engine.tensor_parallel_size,
                allowed=f"1: {model.id} ({model.size_gb:g} GB) fits one B200 and leaves {room_gib:.0f} GiB for its cache",
                why="split over 8 GPUs the engine waits for the slowest one at every layer: "
                "22,300 tok/s with TP=8 against 95,317 with eight ranks",
                write="dataParallelSize: 8 with tensorParallelSize: 1",
            ),
        )
    if engine.enable_expert_parallel and model.id.endswith("27B-FP8"):
        yield (
            ("enableExpertParallel",),
            Problem(
                id="expert-parallel-on-dense-model",
                path=engine_key("enableExpertParallel"),
                value=True,
                allowed="false for a dense model",
                why=f"{model.id} has no experts; vLLM refuses the configuration",
                write="enableExpertParallel: false",
            ),
        )


def _speculation(settings: Settings) -> Judged:
    tokens = settings.serving.engine.speculative_tokens
    if tokens < 2:
        return
    slower = tokens == 2
    yield (
        ("speculative",),
        Problem(
            id="mtp-above-one",
            path=engine_key("speculative.numSpeculativeTokens"),
            value=tokens,
            allowed="1",
            why="2 draft tokens gave 90,567 tok/s against 96,023 with 1"
            if slower
            else "5 draft tokens gained 21 % once and crashed on the second run (cudaErrorIllegalAddress); "
            "acceptance falls from 84.7 % at the first position to 58.7, 49.3, 44.1 and 41.2 %",
            write="speculative: {method: mtp, numSpeculativeTokens: 1}",
            level="finding" if slower else "refused",
        ),
    )


def _gpu_memory(settings: Settings) -> Judged:
    engine = settings.serving.engine
    share = engine.gpu_memory_share
    keys = ("gpuMemoryUtilization", "kvCacheDtype", "speculative", "estimateCudagraphs")
    if share >= CRASH_UTILISATION and engine.speculative_tokens:
        bf16 = (engine.kv_cache_dtype or "auto") in memory.TWO_BYTE_CACHES
        if bf16 or not engine.estimate_cudagraphs:
            why = (
                "with MTP and a bf16 cache 0.95 left 908 requests failed: one engine at 99.6 % cache with 801 queued, another idle"
                if bf16
                else "without the CUDA-graph estimate the graphs come on top of the share and may not fit"
            )
            level = "refused"
        else:
            why, level = (
                "with fp8 and the CUDA-graph estimate 0.95 gained nothing: 95,391 tok/s against 96,023 at 0.92",
                "finding",
            )
        yield (
            keys,
            Problem(
                id="utilisation-with-mtp",
                path=engine_key("gpuMemoryUtilization"),
                value=share,
                allowed="up to 0.92 with kvCacheDtype fp8_e4m3 and estimateCudagraphs, 0.90 with a bf16 cache",
                why=why,
                write="gpuMemoryUtilization: 0.92",
                level="refused" if level == "refused" else "finding",
            ),
        )
    elif share >= GRAPH_RISK_UTILISATION and not engine.estimate_cudagraphs and not engine.enforce_eager:
        yield (
            keys,
            Problem(
                id="cudagraph-estimate-unset",
                path=engine_key("estimateCudagraphs"),
                value=engine.estimate_cudagraphs,
                allowed=f"true from a utilisation of {GRAPH_RISK_UTILISATION} on",
                why="vLLM 0.18 does not count CUDA graphs by default: they come on top of the share, and capture runs out of memory",
                write="estimateCudagraphs: true",
            ),
        )


def _layout(settings: Settings) -> memory.CacheLayout:
    engine = settings.serving.engine
    return memory.CacheLayout(
        kv_cache_dtype=engine.kv_cache_dtype or "auto",
        speculative_tokens=engine.speculative_tokens,
        ssm_cache_dtype=engine.mamba_ssm_cache_dtype or "auto",
        prefix_caching=bool(engine.enable_prefix_caching),
    )


def _is_hybrid(settings: Settings) -> bool:
    return "Qwen3.5" in settings.serving.model.id


def _has_known_architecture(settings: Settings) -> bool:
    return "Qwen3.5-27B" in settings.serving.model.id


def _prefix_caching(settings: Settings) -> Judged:
    engine = settings.serving.engine
    if not _is_hybrid(settings):
        return
    keys = ("enablePrefixCaching", "mambaCacheMode", "mambaBlockSize")
    if engine.enable_prefix_caching and (engine.mamba_cache_mode is None or engine.mamba_block_size is None):
        yield (
            keys,
            Problem(
                id="hybrid-prefix-cache-flags",
                path=engine_key("mambaCacheMode"),
                value=engine.mamba_cache_mode,
                allowed="align, with mambaBlockSize: 8, where enablePrefixCaching is true",
                why="the article lost throughput ten-fold without them: the engine reprocessed the whole prompt on every answer",
                write="mambaCacheMode: align and mambaBlockSize: 8",
            ),
        )
    if not engine.enable_prefix_caching and engine.mamba_block_size is not None:
        yield (
            keys,
            Problem(
                id="mamba-flags-without-prefix-caching",
                path=engine_key("mambaBlockSize"),
                value=engine.mamba_block_size,
                allowed="left out (null) while enablePrefixCaching is off",
                why="vLLM 0.18.1 refuses to start: the block size only means something with prefix caching",
                write="remove mambaBlockSize and mambaCacheMode, or enablePrefixCaching: true",
            ),
        )
    if not engine.enable_prefix_caching or not _has_known_architecture(settings):
        return
    shortest = memory.shortest_prompt_prefix_caching_can_hit(_layout(settings))
    longest = engine.context_tokens
    if shortest is not None and longest < shortest:
        block = memory.attention_block_tokens(_layout(settings))
        yield (
            (*keys, "maxModelLen", "speculative", "kvCacheDtype"),
            Problem(
                id="prefix-cache-never-hits",
                path=engine_key("enablePrefixCaching"),
                value=True,
                allowed=f"false, or maxModelLen of {shortest} and more",
                why=f"a cache block of this model is {block} tokens, so no prompt below {shortest} tokens can hit and maxModelLen is "
                f"{longest}: the article saw zero hits, and the flag costs a quarter of the estimated concurrency",
                write="enablePrefixCaching: false, mambaCacheMode: null, mambaBlockSize: null",
            ),
        )


def _sequences(settings: Settings) -> Judged:
    serving, engine = settings.serving, settings.serving.engine
    per_engine = engine.sequences
    admitted = per_engine * engine.data_parallel_size
    if admitted < serving.concurrency_per_replica:
        needed = ceil(serving.concurrency_per_replica / engine.data_parallel_size)
        yield (
            ("maxNumSeqs", "dataParallelSize"),
            Problem(
                id="sequences-below-load",
                path=engine_key("maxNumSeqs"),
                value=per_engine,
                allowed=f"{needed} or more: {serving.concurrency_per_replica} requests in flight "
                f"over {engine.data_parallel_size} engine(s)",
                why="the scheduler admits no more than maxNumSeqs per engine: "
                "at 512 on one engine throughput was flat from 500 to 1,000 in flight",
                write=f"maxNumSeqs: {needed}",
            ),
        )
    swept = settings.benchmark.concurrency or () if settings.benchmark.enabled else ()
    if swept and max(swept) > max(admitted, serving.concurrency_per_replica):
        most = max(swept)
        yield (
            ("maxNumSeqs", "dataParallelSize"),
            Problem(
                id="sequences-below-load",
                path=key("benchmark.concurrency"),
                value=list(swept),
                allowed=f"up to {admitted}: maxNumSeqs {per_engine} on each of {engine.data_parallel_size} engine(s) of a replica",
                why="the scheduler admits no more than maxNumSeqs per engine, so a higher load measures the queue: "
                "at 512 on one engine throughput was flat from 500 to 1,000 in flight",
                write=f"maxNumSeqs: {ceil(most / engine.data_parallel_size)}, or loads up to {admitted}",
            ),
        )
    batch = engine.batched_tokens
    if batch < per_engine:
        yield (
            ("maxNumSeqs", "maxNumBatchedTokens"),
            Problem(
                id="batch-below-sequences",
                path=engine_key("maxNumBatchedTokens"),
                value=batch,
                allowed=f"{per_engine} (maxNumSeqs) or more",
                why="a step needs room for one token of every sequence; vLLM refuses to start",
                write=f"maxNumBatchedTokens: {per_engine}",
            ),
        )
    if not _has_known_architecture(settings):
        return
    layout = _layout(settings)
    cache_gib = memory.cache_gib_per_gpu(gpu_memory_utilization=engine.gpu_memory_share)
    if engine.max_num_seqs is not None and engine.tensor_parallel_size == 1:
        limit = memory.max_num_seqs_limit(layout, cache_gib)
        if engine.max_num_seqs > limit:
            yield (
                ("maxNumSeqs",),
                Problem(
                    id="max-num-seqs-above-state",
                    path=engine_key("maxNumSeqs"),
                    value=engine.max_num_seqs,
                    allowed=f"up to about {limit}, the recurrent-state blocks that fit one GPU",
                    why="0.18.1 accepts it and never runs so many; vLLM 0.20 and later refuse to start",
                    write=f"maxNumSeqs: {min(limit, DEFAULT_SEQUENCES)}",
                    level="finding",
                ),
            )
    block = memory.attention_block_tokens(layout)
    if engine.enable_prefix_caching and block > batch:
        yield (
            ("maxNumBatchedTokens", "enablePrefixCaching"),
            Problem(
                id="block-above-batch",
                path=engine_key("maxNumBatchedTokens"),
                value=batch,
                allowed=f"{block} or more",
                why="aligned prefix caching computes whole blocks; the engine refuses to start",
                write="maxNumBatchedTokens: 16384",
            ),
        )


def _context(settings: Settings) -> Judged:
    serving, engine = settings.serving, settings.serving.engine
    configured, needed = engine.context_tokens, serving.context_tokens
    if configured < needed:
        yield (
            ("maxModelLen",),
            Problem(
                id="context-below-need",
                path=engine_key("maxModelLen"),
                value=configured,
                allowed=f"{needed} or more (server.needs.contextTokens)",
                why="longer requests are refused with an error by the server",
                write=f"maxModelLen: {needed}",
            ),
        )
    elif configured > needed * CONTEXT_SLACK:
        yield (
            ("maxModelLen",),
            Problem(
                id="context-far-above-need",
                path=engine_key("maxModelLen"),
                value=configured,
                allowed=f"{needed} to {needed * CONTEXT_SLACK}: requests need up to {needed} tokens (server.needs.contextTokens)",
                why="131,072 for 1,500-token requests left the cache 99.4 % full and 138 requests waiting: "
                "74,848 tok/s against 85,509 at 4,096",
                write=f"maxModelLen: {needed}",
            ),
        )
