"""FP8 weights with a scale for each block, and the sizes of tensor parallelism that cut blocks.

Source: vLLM 0.18.1 and 0.33.0, model_executor/layers/quantization/fp8.py and utils/fp8_utils.py (validate_fp8_block_shape): a GPU's part
of a matrix must be whole blocks, in both directions. 0.33.0, fused_moe/oracle/fp8.py (refine_fp8_moe_block_shape): experts may be cut into
blocks of 32 or more, which only the Triton kernels compute. The first release with it is 0.29 (unverified: it was not read).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Final

_REFINES_BLOCKS: Final = (0, 29, 0)
_LEAST_REFINED: Final = 32
_EXPERTS: Final = "experts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks of a checkpoint, and widths that tensor parallelism splits. 0: the model has no such part, or not in FP8."""

    side: int
    """Rows and columns of a block."""
    expert_width: int
    dense_width: int
    shared_width: int
    query_heads: int
    kv_heads: int
    head_size: int

    def cut(self, ranks: int, *, whole_experts: bool) -> Iterator[tuple[str, int]]:
        """Name and width on one GPU of each part whose blocks this many GPUs would cut. `whole_experts`: with expert parallelism."""
        kv_heads = max(1, self.kv_heads // ranks)
        widths = {
            _EXPERTS: 0 if whole_experts else self.expert_width // ranks,
            "feed-forward layers": self.dense_width // ranks,
            "shared experts": self.shared_width // ranks,
            "queries": self.query_heads * self.head_size // ranks,
            "keys and values": kv_heads * self.head_size,
        }
        yield from ((name, width) for name, width in widths.items() if width % self.side)

    def refused(self, ranks: int, release: tuple[int, ...], *, whole_experts: bool) -> dict[str, int]:
        """What `cut` finds and a release of vLLM, such as (0, 33, 0), refuses: from 0.29 it cuts blocks of experts itself."""
        refines = release >= _REFINES_BLOCKS
        return {
            name: width
            for name, width in self.cut(ranks, whole_experts=whole_experts)
            if not (refines and name == _EXPERTS and gcd(self.side, width) >= _LEAST_REFINED)
        }
