"""Which models fit which GPUs: weights and the cache of one request."""

from __future__ import annotations

from collections.abc import Callable

from facts import memory
from facts.engines import DEFAULT, find
from facts.machines import Gpu, Machine
from facts.memory import CacheLayout
from facts.models import ModelShape

# The article's release: current releases use more of the GPU's memory, so a model that fits here fits there.
_VLLM = find(DEFAULT)
REQUEST_TOKENS = 8_192
"""Length of the request that must fit: a conversation."""


def requests_at_once(shape: ModelShape, gpu: Gpu, gpus: int, *, adapters_gib: float = 0.0) -> int:
    """Concurrent requests of REQUEST_TOKENS on one engine with this number of GPUs, by vLLM's startup estimate; 0 if the model does not
    fit. `adapters_gib`: of one GPU, for slots of LoRA adapters.
    """
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
        weights_and_draft_gib=shape.text_weights_gib / gpus + adapters_gib,
        logits_gib=0,
        overhead_gib=start.total_gib,
    )
    return int(memory.startup_concurrency(layout, cache_gib, min(REQUEST_TOKENS, shape.context_tokens)))


def gpus_needed(
    shape: ModelShape, machine: Machine, *, adapters_gib: Callable[[int], float] = lambda _: 0.0
) -> int | None:
    """The fewest GPUs of one machine that fit the model and a request; None if all of them do not. `adapters_gib`: GiB of one GPU for
    slots of LoRA adapters, by the number of GPUs that share the model.
    """
    counts = (count for count in (1, 2, 4, 8) if count <= machine.gpus and shape.attention_heads % count == 0)
    return next(
        (count for count in counts if requests_at_once(shape, machine.gpu, count, adapters_gib=adapters_gib(count))),
        None,
    )


def computes_natively(shape: ModelShape, gpu: Gpu) -> bool:
    """Whether the GPU computes in the weights' format; otherwise vLLM converts weights when it reads them, which only saves memory."""
    if shape.weight_format == "fp8":
        return gpu.fp8_flop_per_s is not None
    return shape.weight_format not in ("nvfp4", "mxfp4") or gpu.fp4_flop_per_s is not None
