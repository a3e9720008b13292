"""Whether servers have one KV cache, by the labels of vllm:cache_config_info."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

BLOCKS: Final = "num_gpu_blocks"
BLOCKS_SHARE: Final = 0.02
"""How much more blocks the largest cache may have than the smallest. Assumed: vLLM gives the cache what a trial step leaves of a
GPU's memory, which is some megabytes more or less at each start; two per cent are below what repeats of a benchmark vary."""


def differ(configs: Iterable[Mapping[str, str]]) -> bool:
    """Whether any label differs, apart from a number of blocks that is nearly the same."""
    every = list(configs)
    rest = {tuple(sorted((name, value) for name, value in one.items() if name != BLOCKS)) for one in every}
    blocks = {one.get(BLOCKS, "") for one in every}
    if len(rest) > 1 or (len(blocks) > 1 and not all(block.isdecimal() for block in blocks)):
        return True
    numbers = [int(block) for block in blocks if block.isdecimal()]
    return len(numbers) > 1 and max(numbers) > min(numbers) * (1 + BLOCKS_SHARE)
