"""Checks of the context and of the cache's format against the model: a length beyond the model's own, YaRN, a 4-bit cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from facts.engines import LONGEST_CONTEXT_TOKENS, parse
from facts.finding import Finding
from facts.machines import B200
from facts.memory import FOUR_BIT_CACHE
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

_MISREAD_HEAD_SIZE: Final = 64
_LONG = Row(
    "context-above-model",
    "vLLM does not start with a context longer than max_position_embeddings of config.json, which YaRN multiplies",
    "a shorter maxModelLen, or for Qwen3.5 yarn: {factor: N}",
)
_REQUESTS = Row(
    "requests-above-context",
    "the server rejects longer requests with an error",
    "a larger maxModelLen, or shorter requests",
)
_OVERRIDES = Row("yarn-and-overrides", "vLLM uses the last --hf-overrides only", "one of the two")
_OTHER_MODEL = Row(
    "yarn-on-other-model",
    "elsewhere vLLM would replace all of the model's rope_parameters, or the checkpoint is scaled already",
    "remove yarn; use a checkpoint whose config.json has the longer context",
)
_OTHER_CONTEXT = Row(
    "yarn-of-other-context",
    "positions would be scaled for another training length",
    "no yarn",
)
_FOR_NOTHING = Row(
    "yarn-without-long-context",
    "the model has the shorter context without YaRN, which may lower the quality of every response",
    "a longer maxModelLen, or no yarn",
)
_STATIC = Row(
    "yarn-scales-short-prompts",
    "vLLM's YaRN is static: it scales the positions of short prompts too, which may lower the quality of their responses",
    "nothing, or a second server without yarn for short prompts",
    "note",
)
_FOUR_BITS = Row(
    "four-bit-cache-unreadable",
    "vLLM exits at startup, on a node that is billed, or FlashInfer misreads the cache",
    "kvCacheDtype: auto or fp8_e4m3, or a model and a backend that can read it",
)


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
    if engine.max_model_len > longest:
        allowed = f"up to {longest}, the longest context of {settings.serving.model.id}"
        allowed += f" with a factor of {engine.yarn.factor:g}" if engine.yarn else ""
        yield _LONG("server.engine.maxModelLen", engine.max_model_len, allowed)


def _requests(settings: Settings) -> Iterator[Finding]:
    """Expected requests that the server rejects, and for which no throughput can be estimated."""
    serving, needs = settings.serving, settings.server.needs
    if serving.requests is None:
        return
    longest, context = serving.requests.longest_request_tokens, serving.engine.context_tokens
    if longest > context:
        path = "server.needs.workload" if needs.workload else "server.needs.requests"
        yield _REQUESTS(path, needs.workload or f"up to {longest} tokens", f"up to {context} tokens (maxModelLen)")


def _yarn(settings: Settings) -> Iterator[Finding]:
    """A context extended by YaRN: whether this model can, and what it costs."""
    serving = settings.serving
    shape, engine, yarn = serving.shape, serving.engine, serving.engine.yarn
    if yarn is None:
        return
    original, longest = LONGEST_CONTEXT_TOKENS, yarn.longest_context_tokens
    if "hf-overrides" in parse(engine.extra_args):
        yield _OVERRIDES("server.engine.extraArgs", "--hf-overrides", "left out with server.engine.yarn")
    if shape is not None and not shape.extends_by_yarn:
        allowed = "Qwen3.5 with a vision tower and without a scaled rotary embedding"
        yield _OTHER_MODEL("server.engine.yarn", serving.model.id, allowed)
    elif shape is not None and original != shape.context_tokens:
        allowed = f"a model with max_position_embeddings of {original}; this one has {shape.context_tokens}"
        yield _OTHER_CONTEXT("server.engine.yarn", serving.model.id, allowed)
    elif (engine.max_model_len or 0) <= original:
        yield _FOR_NOTHING("server.engine.maxModelLen", engine.max_model_len, f"more than {original}, up to {longest}")
    else:
        yield _STATIC("server.engine.yarn", yarn.factor, "any; best the smallest that holds the longest request")


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
        allowed = "auto or fp8_e4m3 with another attentionBackend than FLASHINFER"
    elif architecture is not None and architecture.latent_size:
        allowed = "auto or fp8_e4m3 for multi-head latent attention"
    elif (
        architecture is not None
        and _MISREAD_HEAD_SIZE in (architecture.head_size, architecture.window_head_size)
        and settings.machine.gpu.compute_capability != B200.compute_capability
    ):
        allowed = f"auto or fp8_e4m3 for heads of {_MISREAD_HEAD_SIZE} on this GPU"
    else:
        return
    yield _FOUR_BITS("server.engine.kvCacheDtype", FOUR_BIT_CACHE, allowed)
