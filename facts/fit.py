"""Which GPUs hold which model: weights and one request's cache, by the same arithmetic as everything else here."""

from __future__ import annotations

from facts import memory
from facts.engines import DEFAULT, find
from facts.machines import Gpu, Machine
from facts.memory import CacheLayout
from facts.models import ModelShape

# vLLM's defaults for that GPU, in the article's release: less memory for the engine than current ones take, so what fits here fits there.
_VLLM = find(DEFAULT)
REQUEST_TOKENS = 8_192
"""Length of the request for which there has to be room: a conversation."""


def requests_at_once(shape: ModelShape, gpu: Gpu, gpus: int) -> int:
    """Requests of REQUEST_TOKENS that one engine over so many GPUs holds, by vLLM's start-up estimate; 0 where it does not fit."""
    layout = CacheLayout(
        architecture=shape.architecture.on_one_of(gpus),
        kv_cache_dtype="auto",
        speculative_tokens=0,
        prefix_caching=False,
        batched_tokens=_VLLM.batched_tokens(gpu),
    )
    start = memory.startup(
        max_num_seqs=_VLLM.sequences(gpu),
        max_num_batched_tokens=_VLLM.batched_tokens(gpu),
        vocabulary=shape.vocabulary,
        step_width=shape.step_width // gpus,
        drafts=False,
    )
    cache_gib = memory.cache_gib_per_gpu(
        gpu_memory_utilization=_VLLM.gpu_memory_share,
        gpu_memory_gib=gpu.memory_gib,
        weights_and_draft_gib=shape.text_weights_gib / gpus,
        logits_gib=start.logits_gib,
        overhead_gib=start.activations_gib + start.graphs_gib,
    )
    return int(memory.startup_concurrency(layout, cache_gib, min(REQUEST_TOKENS, shape.context_tokens)))


def gpus_needed(shape: ModelShape, machine: Machine) -> int | None:
    """The fewest GPUs of one machine that hold the model and a request; None where not even all of them do."""
    counts = (count for count in (1, 2, 4, 8) if count <= machine.gpus and shape.attention_heads % count == 0)
    return next((count for count in counts if requests_at_once(shape, machine.gpu, count)), None)


def computes_natively(shape: ModelShape, gpu: Gpu) -> bool:
    """Whether the GPU has arithmetic in the weights' format; else vLLM widens the weights as it reads them, which saves memory alone."""
    if shape.weight_format == "fp8":
        return gpu.fp8_flop_per_s is not None
    return shape.weight_format not in ("nvfp4", "mxfp4") or gpu.fp4_flop_per_s is not None
