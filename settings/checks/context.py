"""Checks of the context and of the cache's format against the model: a length beyond the model's own, YaRN, a 4-bit cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.engines import LONGEST_CONTEXT_TOKENS, parse
from facts.finding import Finding
from facts.machines import B200
from facts.memory import FOUR_BIT_CACHE
from settings.sections.engine import MOST_YARN
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

_MISREAD_HEAD_SIZE: Final = 64


def context_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem with context and cache format."""
    yield from _context(settings)
    yield from _requests(settings)
    yield from _yarn(settings)
    yield from _four_bit_cache(settings)


def _context(settings: Settings) -> Iterator[Finding]:
    shape, engine = settings.serving.shape, settings.serving.engine
    if shape is None or engine.max_model_len is None:
        return
    longest = engine.yarn.longest_context_tokens if engine.yarn else shape.context_tokens
    if engine.max_model_len <= longest:
        return
    factor = math.ceil(10 * engine.max_model_len / shape.context_tokens) / 10
    extends = shape.extends_by_yarn and factor <= MOST_YARN
    original = (
        "" if shape.context_tokens == LONGEST_CONTEXT_TOKENS else f", originalContextTokens: {shape.context_tokens}"
    )
    yield Finding(
        id="context-above-model",
        subject=key("server.engine.maxModelLen"),
        found=engine.max_model_len,
        allowed=f"up to {longest}, the longest context of {settings.serving.model.id}"
        + (f" with a factor of {engine.yarn.factor:g}" if engine.yarn else ""),
        why="vLLM does not start with a context longer than max_position_embeddings of config.json, which YaRN multiplies",
        write=f"maxModelLen: {longest}" + (f", or yarn: {{factor: {factor:g}{original}}}" if extends else ""),
    )


def _requests(settings: Settings) -> Iterator[Finding]:
    """Expected requests that the server rejects, and for which no throughput can be estimated."""
    serving, needs = settings.serving, settings.server.needs
    if serving.requests is None:
        return
    longest, context = serving.requests.longest_request_tokens, serving.engine.context_tokens
    if longest <= context:
        return
    yield Finding(
        id="requests-above-context",
        subject=key("server.needs.workload" if needs.workload else "server.needs.requests"),
        found=needs.workload or f"up to {longest} tokens",
        allowed=f"requests of up to {context} tokens (maxModelLen); these have up to {longest}",
        why="the server rejects longer requests with an error",
        write=f"server: {{engine: {{maxModelLen: {longest}}}}}, or shorter requests",
    )


def _yarn(settings: Settings) -> Iterator[Finding]:
    """A context extended by YaRN: whether this model can, and what it costs."""
    serving = settings.serving
    shape, engine, yarn = serving.shape, serving.engine, serving.engine.yarn
    if yarn is None:
        return
    if "hf-overrides" in parse(engine.extra_args):
        yield Finding(
            id="yarn-and-overrides",
            subject=key("server.engine.extraArgs"),
            found="--hf-overrides",
            allowed="server.engine.yarn, or --hf-overrides with everything it needs",
            why="vLLM uses the last --hf-overrides only",
            write="remove yarn, or --hf-overrides from extraArgs",
        )
    if shape is not None and not shape.extends_by_yarn:
        yield Finding(
            id="yarn-on-other-model",
            subject=key("server.engine.yarn"),
            found=serving.model.id,
            allowed="Qwen3.5 with a vision tower and without a scaled rotary embedding",
            why="elsewhere vLLM would replace all of the model's rope_parameters, or the checkpoint is scaled already",
            write="remove yarn; use a checkpoint whose config.json has the longer context",
        )
    elif shape is not None and yarn.original_context_tokens != shape.context_tokens:
        yield Finding(
            id="yarn-of-other-context",
            subject=key("server.engine.yarn.originalContextTokens"),
            found=yarn.original_context_tokens,
            allowed=f"{shape.context_tokens}, max_position_embeddings of {serving.model.id}",
            why="positions would be scaled for another training length",
            write=f"originalContextTokens: {shape.context_tokens}",
        )
    elif (engine.max_model_len or 0) <= yarn.original_context_tokens:
        yield Finding(
            id="yarn-without-long-context",
            subject=key("server.engine.maxModelLen"),
            found=engine.max_model_len,
            allowed=f"more than {yarn.original_context_tokens}, up to {yarn.longest_context_tokens}",
            why="the model has the shorter context without YaRN, which may lower the quality of every response",
            write=f"maxModelLen: {yarn.longest_context_tokens}, or remove yarn",
        )
    else:
        yield Finding(
            id="yarn-scales-short-prompts",
            subject=key("server.engine.yarn"),
            found=yarn.factor,
            allowed="any, with the smallest factor that holds the longest request",
            why="vLLM's YaRN is static: it scales the positions of short prompts too, which may lower the quality of their responses",
            write="nothing, or a second server without yarn for short prompts",
            severity="note",
        )


def _four_bit_cache(settings: Settings) -> Iterator[Finding]:
    """Whether the model's attention can read a 4-bit cache.

    Source: vLLM 0.33.0, v1/attention/backends/flashinfer.py (the only backend; compute capability 8.x, 9.x, 10.x and 12.x, which every
    machine has; head size 64 on 10.x only) and config/vllm.py. The parser's table refuses it for 0.18.
    """
    engine, shape = settings.serving.engine, settings.serving.shape
    if engine.kv_cache_dtype != FOUR_BIT_CACHE:
        return
    architecture = shape.architecture if shape else None
    if engine.attention_backend not in (None, "FLASHINFER"):
        reason = f"attention backend {engine.attention_backend} cannot read it, only FLASHINFER"
        write = "attentionBackend: FLASHINFER"
    elif architecture is not None and architecture.latent_size:
        reason, write = "vLLM does not start with it for multi-head latent attention", "kvCacheDtype: auto"
    elif (
        architecture is not None
        and _MISREAD_HEAD_SIZE in (architecture.head_size, architecture.window_head_size)
        and settings.machine.gpu.compute_capability != B200.compute_capability
    ):
        reason, write = f"FlashInfer misreads heads of {_MISREAD_HEAD_SIZE} on this GPU", "kvCacheDtype: auto"
    else:
        return
    yield Finding(
        id="four-bit-cache-unreadable",
        subject=key("server.engine.kvCacheDtype"),
        found=FOUR_BIT_CACHE,
        allowed="auto or fp8_e4m3, or a model and backend that can read it",
        why=reason,
        write=write,
    )
