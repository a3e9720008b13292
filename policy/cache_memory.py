"""How a hybrid model's cache fills a GPU: the few results of vLLM's block arithmetic that rules need.

Keys and values of the attention layers and the state of the linear layers share one pool of equal blocks, each large
enough for one state. Source: vLLM 0.18.1, model_executor/models/config.py and v1/core/kv_cache_utils.py; a test holds
every result equal to the fleet program's own arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

import figures

GIB: Final = 2**30
B200_GIB: Final[float] = figures.ledger("memory.values.hbm-gb.value") * 1e9 / GIB
WEIGHTS_AND_DRAFT_GIB: Final[float] = figures.constant("facts.memory.WEIGHTS_AND_DRAFT_GIB")
"""Measured: Qwen3.5-27B-FP8 with its MTP layer on one H200."""
OVERHEAD_GIB: Final[float] = figures.constant("facts.memory.ENGINE_OVERHEAD_GIB")
"""Measured: activations, CUDA graphs and allocator in the same run."""

# Source: vLLM 0.18.1: attention kernels take blocks in multiples of 16; the convolution state is bfloat16.
_STEP_TOKENS: Final = 16
_CONVOLUTION_BYTES: Final = 2
BF16_CACHES: Final = frozenset({"auto", "bfloat16", "float16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The numbers of a hybrid model's config.json that decide its cache memory."""

    full_attention_layers: int
    linear_attention_layers: int
    kv_heads: int
    head_size: int
    linear_key_heads: int
    linear_value_heads: int
    linear_head_size: int
    convolution_kernel: int
    mtp_layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One engine's cache, as its flags have it."""

    architecture: Architecture
    bf16: bool
    """Whether keys and values take two bytes."""
    speculative_tokens: int
    half_states: bool = False
    """Whether the recurrent state is kept in float16 (`--mamba-ssm-cache-dtype`)."""

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of one token in one attention layer."""
        return 2 * self.architecture.kv_heads * self.architecture.head_size * (2 if self.bf16 else 1)

    @property
    def state_bytes(self) -> int:
        """Bytes of one sequence's state in one linear layer."""
        model = self.architecture
        recurrent = model.linear_value_heads * model.linear_head_size**2 * (2 if self.half_states else 4)
        channels = (2 * model.linear_key_heads + model.linear_value_heads) * model.linear_head_size
        return recurrent + channels * (model.convolution_kernel - 1 + self.speculative_tokens) * _CONVOLUTION_BYTES

    @property
    def block_tokens(self) -> int:
        """Tokens in one block: the smallest multiple of 16 whose keys and values are at least one state."""
        return _STEP_TOKENS * ceil(self.state_bytes / (_STEP_TOKENS * self.kv_bytes_per_token))

    @property
    def block_bytes(self) -> int:
        """Bytes of one block over the layers of a group."""
        layers = self.architecture.full_attention_layers
        layers += self.architecture.mtp_layers if self.speculative_tokens else 0
        return layers * self.block_tokens * self.kv_bytes_per_token

    @property
    def shortest_prompt_that_hits(self) -> int:
        """Tokens of the shortest prompt of which prefix caching can ever reuse a part.

        The last token is always computed, and with MTP the last matched block is given up as well.
        """
        return self.block_tokens * (2 if self.speculative_tokens else 1) + 1

    def blocks(self, cache_gib: float) -> int:
        """Blocks in so much memory: also the most sequences an engine can hold a state for."""
        return int(cache_gib * GIB // self.block_bytes)


def cache_gib(*, utilisation: float, weights_gib: float = WEIGHTS_AND_DRAFT_GIB, gpu_gib: float = B200_GIB) -> float:
    """GiB that weights and engine leave for the cache on one GPU, 0 where nothing is left."""
    return max(0.0, gpu_gib * utilisation - weights_gib - OVERHEAD_GIB)
