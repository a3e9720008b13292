"""Description of a simulated server: ranks, step times, cache size, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

VLLM_VERSION: Final = "0.18.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a step of one engine takes, whatever is in it."""

    fixed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """The KV cache of one engine."""

    blocks: int = 10_000
    block_tokens: int = 16
    """Source: vLLM 0.18.1, config/cache.py: the default; a hybrid model's is hundreds of tokens long."""
    dtype: str = "auto"
    prefix_caching: bool = True
    memory_utilization: float = 0.9
    labels: Mapping[str, str] = field(default_factory=dict)
    """Additional or overridden labels of vllm:cache_config_info."""

    def info(self) -> dict[str, str]:
        """Labels of vllm:cache_config_info, without the engine. Source: vLLM 0.18.1, CacheConfig.metrics_info(), run."""
        return {
            "_block_size_resolved": "True",
            "block_size": str(self.block_tokens),
            "cache_dtype": self.dtype,
            "calculate_kv_scales": "False",
            "cpu_kvcache_space_bytes": "None",
            "enable_prefix_caching": str(self.prefix_caching),
            "gpu_memory_utilization": str(self.memory_utilization),
            "is_attention_free": "False",
            "kv_cache_memory_bytes": "None",
            "kv_offloading_backend": "native",
            "kv_offloading_size": "None",
            "kv_sharing_fast_prefill": "False",
            "mamba_block_size": "None",
            "mamba_cache_dtype": "auto",
            "mamba_cache_mode": "none",
            "mamba_page_size_padded": "None",
            "mamba_ssm_cache_dtype": "auto",
            "num_cpu_blocks": "None",
            "num_gpu_blocks": str(self.blocks),
            "num_gpu_blocks_override": "None",
            "prefix_caching_hash_algo": "sha256",
            "sliding_window": "None",
            "user_specified_block_size": "False",
            **self.labels,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One server: data-parallel engines behind one front end."""

    model: str
    ranks: int = 8
    """Data-parallel engines."""
    max_model_len: int = 262_144
    cache: Cache = field(default_factory=Cache)
    pace: Pace
    speculative_tokens: int = 0
    """Draft tokens of a step; 0: none, and no metrics of them."""
    acceptance: float = 0.9
    """Chance that a draft token is accepted when those before it were. Source: the article's figure for MTP-1."""
    mean_answer_tokens: int = 200
    """Where the model ends an answer that may end. Assumed."""
    reasons: bool = True
    """Whether the model thinks before it answers in a chat."""
    version: str = VLLM_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What is wrong with a server on purpose. Shares are from 0 to 1, of requests, spread evenly."""

    starving_ranks: tuple[int, ...] = ()
    """Engines that the front end never sends anything to, unless a request names the rank."""
    cut_share: float = 0.0
    """Answers whose connection is cut half way."""
    unavailable_share: float = 0.0
    """Requests answered with HTTP 503."""
    reasoning_unsplit: bool = False
    """The reasoning stays in the content, as without --reasoning-parser."""
    drafts_rejected: bool = False
    """Every draft token is rejected: speculation costs and gains nothing."""
    wrong_answers: bool = False
    """Wrong answers, as with broken weights; visible where a request asks for log probabilities."""
    wrong_under_load: bool = False
    """Wrong answers to what is asked beside others, as with a kernel that is wrong for some batches."""
    wrong_after_hit: bool = False
    """Wrong answers to prompts that hit the prefix cache, as with blocks that hold another's state."""
    metrics_missing: bool = False
    """/metrics answers 404."""


class Evenly:
    """Says yes to a given share of those who ask, spread as evenly as it divides."""

    def __init__(self, share: float) -> None:
        self._share, self._due = share, 0.0

    def __call__(self) -> bool:
        """Whether this one."""
        self._due += self._share
        if self._due >= 1 - 1e-9:
            self._due -= 1
            return True
        return False
