"""One GPU's memory by part: weights, draft, activations, CUDA graphs and cache.

At start-up vLLM loads the model, runs one dummy step of the largest size, and assigns the rest of its share to the cache, whose
arithmetic is in facts/memory.py.

Source: vLLM 0.18.1, v1/worker/gpu_worker.py (determine_available_memory) and v1/worker/gpu_model_runner.py
(profile_run): the dummy step samples for `--max-num-seqs` sequences, so an unused limit
still costs memory (facts.memory.startup_logits_gib).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from facts import memory
from facts.memory import CacheLayout, StartUp
from facts.workloads import Workload
from fleet.plan.model.calibration import calibration
from fleet.plan.model.deployment import Deployment
from fleet.plan.model.roofline import is_articles

# Sampled prompt lengths on either side of the mean.
_PROMPTS = 4


class DoesNotFitError(ValueError):
    """Weights and activations leave no room for one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """One GPU's memory by part. The parts within the budget add up to `budget_gib`."""

    gpu_gib: float
    budget_gib: float
    """vLLM's share by `--gpu-memory-utilization`."""
    weights_gib: float
    draft_gib: float
    vision_gib: float
    adapters_gib: float
    """Slots for LoRA adapters."""
    activations_gib: float
    sampler_gib: float
    """Logits of the dummy step, for `--max-num-seqs` sequences."""
    cuda_graphs_gib: float
    graphs_in_budget: bool
    """Whether graphs count within the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1) or on top of it."""
    cache_gib: float
    layout: CacheLayout

    @property
    def pool_blocks(self) -> int:
        """Cache blocks: each holds one attention block or one state for the layers of a group."""
        return memory.pool_blocks(self.layout, self.cache_gib)

    @property
    def kv_tokens(self) -> int:
        """Tokens as logged by vLLM 0.18 ("GPU KV cache size"): blocks / groups * tokens per attention block."""
        return memory.logged_kv_tokens(self.layout, self.pool_blocks)

    def running_limit(self, workload: Workload) -> float:
        """Sequences of that workload that fit the cache in parallel."""
        return self.usable_blocks // self.blocks_per_sequence(workload)

    def blocks_per_sequence(self, workload: Workload) -> float:
        """Mean blocks per running sequence over its lifetime."""
        return _attention_blocks(self.layout, workload) + self.state_blocks

    @property
    def state_blocks(self) -> int:
        """Blocks of a running sequence's linear-layer states, independent of its length.

        A 16-bit cache holds as many as the start-up estimate. Inferred: phase 2 was 99.4 % full with 135 running, 10.6 blocks
        each, 9 of them states by the estimate. With an fp8 cache an H200 and the record hold 6.
        """
        return _state_blocks(self.layout)

    def used_percent(self, running: float, workload: Workload) -> float:
        """`vllm:kv_cache_usage_perc` in percent with that many running; at most 100, as vLLM queues the rest."""
        return min(100.0, 100 * running * self.blocks_per_sequence(workload) / self.usable_blocks)

    @property
    def usable_blocks(self) -> int:
        """The pool without vLLM's null block."""
        return max(0, self.pool_blocks - 1)


def budget(deployment: Deployment, workload: Workload | None = None) -> MemoryBudget:
    """Memory of one GPU. Raises DoesNotFitError if the longest request does not fit."""
    engine, model, ranks = deployment.engine, deployment.model, deployment.engine.tensor_parallel
    budget_gib = deployment.gpu.memory_gib * engine.gpu_memory_utilization
    start = _startup(deployment)
    parts = {
        "weights_gib": model.text_weights_gib / ranks,
        "draft_gib": model.draft_weights_gib / ranks if engine.speculative_tokens else 0.0,
        "vision_gib": 0.0 if engine.language_model_only else model.vision_weights_gib / ranks,
        "adapters_gib": memory.adapter_slots_gib(
            model.adapter_widths, slots=engine.max_loras, rank=engine.max_lora_rank, ranks=ranks
        ),
        "activations_gib": start.activations_gib,
        "sampler_gib": start.logits_gib,
    }
    spent_gib = sum(parts.values()) + (start.graphs_gib if engine.estimate_cudagraphs else 0.0)
    result = MemoryBudget(
        gpu_gib=deployment.gpu.memory_gib,
        budget_gib=budget_gib,
        **parts,
        cuda_graphs_gib=start.graphs_gib,
        graphs_in_budget=engine.estimate_cudagraphs,
        cache_gib=max(0.0, budget_gib - spent_gib),
        layout=deployment.layout,
    )
    longest = min(engine.max_model_len_tokens, workload.longest_request_tokens) if workload else 1
    if result.usable_blocks < result.state_blocks + -(-longest // memory.attention_block_tokens(result.layout)):
        left = f"the rest cannot hold a request of {longest:,} tokens" if workload else "no memory is left for requests"
        raise DoesNotFitError(
            f"{model.name} does not fit one {deployment.gpu.name} with tensor_parallel {ranks}: of {budget_gib:.0f} GiB "
            f"({engine.gpu_memory_utilization:g} of {deployment.gpu.memory_gib:g}) weights and activations take "
            f"{spent_gib:.0f}, and {left}"
        )
    return result


def _startup(deployment: Deployment) -> StartUp:
    """Memory taken at start-up: calibrated for the article's models on its GPU, else summed from measured parts."""
    engine, model = deployment.engine, deployment.model
    drafts = engine.speculative_tokens > 0
    if not is_articles(deployment):
        return memory.startup(
            max_num_seqs=engine.max_num_seqs,
            max_num_batched_tokens=engine.max_num_batched_tokens,
            vocabulary=model.vocabulary,
            step_width=model.step_width // engine.tensor_parallel,
            drafts=drafts,
        )
    taken = calibration().memory
    return StartUp(
        logits_gib=memory.startup_logits_gib(
            max_num_seqs=engine.max_num_seqs,
            max_num_batched_tokens=engine.max_num_batched_tokens,
            vocabulary=model.vocabulary,
            drafts=drafts,
        ),
        step_gib=0.0,
        driver_gib=taken.activations_gib,
        graphs_gib=taken.cuda_graphs_gib,
    )


@lru_cache(maxsize=1_024)
def _state_blocks(layout: CacheLayout) -> int:
    two_byte = layout.kv_cache_dtype in memory.TWO_BYTE_CACHES
    blocks = memory.startup_blocks_per_request if two_byte else memory.running_blocks_per_request
    return blocks(layout, 0)


@lru_cache(maxsize=1_024)
def _attention_blocks(layout: CacheLayout, workload: Workload) -> float:
    """Mean attention blocks of a sequence, over prompt lengths and the growth of a mean-length answer."""
    block, lengths, answer = memory.attention_block_tokens(layout), workload.input_tokens, workload.output_tokens
    prompts = [
        low + (high - low) * (step + 0.5) / _PROMPTS
        for low, high in ((lengths.min, lengths.mean), (lengths.mean, lengths.max))
        for step in range(_PROMPTS)
    ]
    held = [
        _blocks_times_tokens(prompt + answer.mean, block) - _blocks_times_tokens(prompt, block) for prompt in prompts
    ]
    return sum(held) / len(held) / answer.mean


def _blocks_times_tokens(tokens: float, block: int) -> float:
    """Sum of ceil(t / block) over t up to `tokens`."""
    whole = int(tokens // block)
    return block * whole * (whole + 1) / 2 + (whole + 1) * (tokens - whole * block)
