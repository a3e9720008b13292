"""One GPU's memory, part by part: weights, draft, activations, CUDA graphs, and what is left for the cache.

What vLLM does at start-up: it takes a share of the GPU, loads the model, runs one step of the largest size with dummy
requests, and gives the rest to the cache. The cache's own arithmetic is facts/memory.py.

Source: vLLM 0.18.1, v1/worker/gpu_worker.py (determine_available_memory) and v1/worker/gpu_model_runner.py
(profile_run): the dummy step samples for `--max-num-seqs` sequences, logits in float32 over the whole vocabulary, so a
limit that is never reached still costs memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from facts import memory
from facts.memory import GIB, CacheLayout
from facts.workloads import Workload
from fleet.plan.model.calibration import MemoryParameters, calibration
from fleet.plan.model.deployment import Deployment

_LOGIT_BYTES = 4


class DoesNotFitError(ValueError):
    """Weights and activations leave no room for one request. The message names the parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """Where one GPU's memory goes. The parts within the budget add up to `budget_gib`."""

    gpu_gib: float
    budget_gib: float
    """The share that `--gpu-memory-utilization` gives vLLM."""
    weights_gib: float
    draft_gib: float
    vision_gib: float
    activations_gib: float
    sampler_gib: float
    """Logits of the dummy step, for `--max-num-seqs` sequences."""
    cuda_graphs_gib: float
    graphs_in_budget: bool
    """Whether the graphs come out of the budget (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1) or on top of it."""
    cache_gib: float
    layout: CacheLayout

    @property
    def outside_gib(self) -> float:
        """What stays free for peaks that the dummy step did not show."""
        return self.gpu_gib - self.budget_gib - (0.0 if self.graphs_in_budget else self.cuda_graphs_gib)

    @property
    def pool_blocks(self) -> int:
        """Blocks of the cache, each of one attention block or one state over the layers of a group."""
        return memory.pool_blocks(self.layout, self.cache_gib)

    @property
    def kv_tokens(self) -> int:
        """Tokens as vLLM 0.18 logs them ("GPU KV cache size"): blocks over groups, times the attention block."""
        return memory.logged_kv_tokens(self.layout, self.pool_blocks)

    def running_limit(self, sequence_tokens: float) -> int:
        """Sequences of that length that run at once."""
        return self.usable_blocks // self.blocks_per_sequence(sequence_tokens)

    def blocks_per_sequence(self, sequence_tokens: float) -> int:
        """Blocks of one running sequence: attention blocks, and a state for each linear group and draft token."""
        return memory.running_blocks_per_request(self.layout, max(1, round(sequence_tokens)))

    def attention_share(self, sequence_tokens: float) -> float:
        """Part of a running sequence's blocks that holds keys and values; the rest holds recurrent state."""
        states = memory.linear_groups(self.layout) * (1 + self.layout.speculative_tokens)
        return 1 - states / self.blocks_per_sequence(sequence_tokens)

    def used_percent(self, running: float, sequence_tokens: float) -> float:
        """`vllm:kv_cache_usage_perc` in per cent with so many running; at most 100, as vLLM queues the rest."""
        return min(100.0, 100 * running * self.blocks_per_sequence(sequence_tokens) / self.usable_blocks)

    @property
    def usable_blocks(self) -> int:
        """The pool without the one block that stands for "nothing"."""
        return max(0, self.pool_blocks - 1)


def budget(
    deployment: Deployment, workload: Workload | None = None, *, taken: MemoryParameters | None = None
) -> MemoryBudget:
    """The memory of one GPU of that fleet. Raises DoesNotFitError where the longest request would not fit.

    `taken` replaces the calibration in the repository, while it is being made.
    """
    engine, model, ranks = deployment.engine, deployment.model, deployment.engine.tensor_parallel
    taken = taken or calibration().memory
    sampled = min(engine.max_num_seqs, engine.max_num_batched_tokens)
    budget_gib = deployment.gpu.memory_gib * engine.gpu_memory_utilization
    parts = {
        "weights_gib": model.text_weights_gib / ranks,
        "draft_gib": model.draft_weights_gib / ranks if engine.speculative_tokens else 0.0,
        "vision_gib": 0.0 if engine.language_model_only else model.vision_weights_gib / ranks,
        "activations_gib": taken.activations_gib,
        "sampler_gib": taken.sampler_copies * sampled * model.vocabulary * _LOGIT_BYTES / GIB,
    }
    spent_gib = sum(parts.values()) + (taken.cuda_graphs_gib if engine.estimate_cudagraphs else 0.0)
    result = MemoryBudget(
        gpu_gib=deployment.gpu.memory_gib,
        budget_gib=budget_gib,
        **parts,
        cuda_graphs_gib=taken.cuda_graphs_gib,
        graphs_in_budget=engine.estimate_cudagraphs,
        cache_gib=max(0.0, budget_gib - spent_gib),
        layout=deployment.layout,
    )
    longest = min(engine.max_model_len_tokens, workload.longest_request_tokens) if workload else 1
    if result.running_limit(longest) < 1:
        left = f"what is left holds no request of {longest:,} tokens" if workload else "nothing is left for a request"
        raise DoesNotFitError(
            f"{model.name} does not fit one {deployment.gpu.name} with tensor_parallel {ranks}: of {budget_gib:.0f} GiB "
            f"({engine.gpu_memory_utilization:g} of {deployment.gpu.memory_gib:g}) weights and activations take "
            f"{spent_gib:.0f}, and {left}"
        )
    return result
