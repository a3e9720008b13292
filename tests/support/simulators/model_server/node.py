"""Description of a simulated server: ranks, step times, cache size, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

VLLM_VERSION: Final = "0.18.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a step of one engine takes: a fixed part, one for each sequence in it, one for each token of it.

    The planner's model of a step (fleet/plan/model/step_time.py).
    """

    fixed_s: float
    sequence_s: float = 0.0
    token_s: float = 0.0
    uncaptured_s: float = 0.0
    """Additional duration of a step beyond the captured CUDA graphs."""
    captured_tokens: int = 512
    """Source: vLLM 0.18.1, config/vllm.py: CUDA graphs are captured up to this many tokens unless told otherwise."""

    def __post_init__(self) -> None:
        if min(self.fixed_s, self.sequence_s, self.token_s, self.uncaptured_s) < 0 or self.step_s(0, 0) <= 0:
            raise ValueError(f"parts of a step are zero or more and a step takes time, got {self}")

    def step_s(self, sequences: int, tokens: int) -> float:
        """Duration of a step; `tokens` includes prompts and drafts."""
        seconds = self.fixed_s + sequences * self.sequence_s + tokens * self.token_s
        return seconds + (self.uncaptured_s if tokens > self.captured_tokens else 0.0)


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
    max_num_seqs: int = 1_024
    """Requests that one engine answers at once; more wait in its queue."""
    max_num_batched_tokens: int = 8_192
    """Tokens of one step, those of prompts included."""
    max_model_len: int = 262_144
    cache: Cache = field(default_factory=Cache)
    pace: Pace
    speculative_tokens: int = 0
    """Draft tokens of a step; 0: none, and no metrics of them."""
    acceptance: float = 0.9
    """Chance that a draft token is accepted when those before it were. Source: the article's figure for MTP-1."""
    mean_answer_tokens: int = 200
    """Where the model ends an answer that may end; each prompt has its own length around this. Assumed."""
    reasons: bool = True
    """Whether the model thinks before it answers in a chat."""
    mfu_metrics: bool = False
    version: str = VLLM_VERSION
    root: str | None = None
    """Where /v1/models says that the weights came from; by default the model's name."""

    def __post_init__(self) -> None:
        for name in ("ranks", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "mean_answer_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is 1 or more, got {getattr(self, name)}")
        if self.cache.blocks < 1 or self.cache.block_tokens < 1:
            raise ValueError(f"a cache has blocks and a block has tokens, got {self.cache}")
        if not 0 <= self.acceptance <= 1:
            raise ValueError(f"acceptance is a share from 0 to 1, got {self.acceptance}")
        if self.speculative_tokens < 0:
            raise ValueError(f"speculative_tokens is 0 or more, got {self.speculative_tokens}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What is wrong with a server on purpose. Shares are from 0 to 1, of requests, spread evenly."""

    starving_ranks: tuple[int, ...] = ()
    """Engines that the front end never sends anything to, unless a request names the rank."""
    cut_share: float = 0.0
    """Answers whose connection is cut half way."""
    unavailable_share: float = 0.0
    """Requests answered with HTTP 503."""
    error_share: float = 0.0
    """Requests answered with HTTP 500."""
    failing_word: str = ""
    """Requests whose prompt has this word are answered with HTTP 500, as of one that an engine cannot compute; empty: none."""
    reasoning_unsplit: bool = False
    """The reasoning stays in the content, as without --reasoning-parser."""
    drafts_rejected: bool = False
    """Every draft token is rejected: speculation costs and gains nothing."""
    wrong_answers: bool = False
    """Wrong answers, as with broken weights; visible where a request asks for token numbers."""
    wrong_under_load: bool = False
    """Wrong answers to what is asked beside others, as with a kernel that is wrong for some batches."""
    wrong_after_hit: bool = False
    """Wrong answers to prompts that hit the prefix cache, as with blocks that hold another's state."""
    tools_unparsed: bool = False
    """Tool calls stay in the content, as with another model's parser."""
    metrics_missing: bool = False
    """/metrics answers 404."""
    engine_dead: bool = False
    """/health answers 503, as once an engine has died, and so does every request."""

    def __post_init__(self) -> None:
        for name in ("cut_share", "unavailable_share", "error_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is from 0 to 1, got {getattr(self, name)}")


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


def from_plain(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """A Node or Faults from what `dataclasses.asdict` and JSON made of it."""
    fields = dict(values)
    if kind is Node:
        fields["pace"] = Pace(**fields["pace"])
        fields["cache"] = Cache(**fields["cache"])
    if kind is Faults:
        fields["starving_ranks"] = tuple(fields["starving_ranks"])
    return kind(**fields)
