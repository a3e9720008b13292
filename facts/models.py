"""Models by what decides their memory and their speed: parameters, number formats, attention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from facts.memory import GIB, QWEN3_5_27B, HybridArchitecture


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """One checkpoint. Sizes are of the whole model; tensor parallelism divides them."""

    name: str
    architecture: HybridArchitecture
    text_weights_gib: float
    draft_weights_gib: float
    """The multi-token-prediction layer; embeddings and output head are the model's own."""
    vision_weights_gib: float
    """The vision tower, left out by `--language-model-only`; 0 where there is none."""
    active_parameters: float
    """Parameters that one token is multiplied with, output head included."""
    attention_width: int
    """Query heads times head size."""
    vocabulary: int

    @property
    def linear_state_bytes(self) -> int:
        """Bytes of one sequence's recurrent state over all linear layers, in float32."""
        shape = self.architecture
        return shape.linear_attention_layers * shape.linear_value_heads * shape.linear_head_size**2 * 4


# Source: public config.json of Qwen/Qwen3.5-27B-FP8: hidden 5,120, FFN 17,408, vocabulary 248,320, 24 query heads with an output
# gate, 64 layers of which 16 attend.
_HIDDEN, _FFN, _VOCABULARY, _QUERY_WIDTH = 5_120, 17_408, 248_320, 24 * 256
_FFN_PARAMETERS = 3 * _HIDDEN * _FFN
_ATTENTION_PARAMETERS = _HIDDEN * (2 * _QUERY_WIDTH + 2 * 4 * 256) + _QUERY_WIDTH * _HIDDEN
_LINEAR_PARAMETERS = _HIDDEN * (2 * 16 * 128 + 2 * 48 * 128) + 48 * 128 * _HIDDEN
_BLOCK_PARAMETERS = 64 * _FFN_PARAMETERS + 16 * _ATTENTION_PARAMETERS + 48 * _LINEAR_PARAMETERS
_HEAD_PARAMETERS = _VOCABULARY * _HIDDEN
# One attention layer with its FFN, and the projection that joins hidden state and embedding.
_DRAFT_PARAMETERS = _ATTENTION_PARAMETERS + _FFN_PARAMETERS + 2 * _HIDDEN * _HIDDEN
# Source: same file, vision tower of 27 layers of width 1,152, FFN 4,304; about 0.45e9 parameters with patches and merger.
_VISION_PARAMETERS = 0.45e9

# FP8 in the blocks and the draft, bfloat16 in embeddings, head and vision tower. Measured: text and draft together take 28.0 GiB on
# an H200; this arithmetic gives 27.8.
QWEN3_5_27B_FP8 = ModelShape(
    name="Qwen/Qwen3.5-27B-FP8",
    architecture=QWEN3_5_27B,
    text_weights_gib=(_BLOCK_PARAMETERS + 2 * 2 * _HEAD_PARAMETERS) / GIB,
    draft_weights_gib=_DRAFT_PARAMETERS / GIB,
    vision_weights_gib=2 * _VISION_PARAMETERS / GIB,
    active_parameters=_BLOCK_PARAMETERS + _HEAD_PARAMETERS,
    attention_width=_QUERY_WIDTH,
    vocabulary=_VOCABULARY,
)

# For the check against the article's detour only. Source: the name: 397e9 parameters, 17e9 of them active; NVFP4 is half a byte and a
# scale of one byte for 16 values. Assumed: linear layers as in the 27B, scaled to 60 layers.
QWEN3_5_397B_NVFP4 = ModelShape(
    name="Qwen3.5-397B-A17B (NVFP4)",
    architecture=HybridArchitecture(
        full_attention_layers=15,
        linear_attention_layers=45,
        kv_heads=2,
        head_size=256,
        linear_key_heads=16,
        linear_value_heads=64,
        linear_head_size=128,
        convolution_kernel=4,
        mtp_layers=1,
    ),
    text_weights_gib=397e9 * (0.5 + 1 / 16) / GIB,
    draft_weights_gib=0,
    vision_weights_gib=2 * _VISION_PARAMETERS / GIB,
    active_parameters=17e9,
    attention_width=32 * 256,
    vocabulary=_VOCABULARY,
)

_LINEAR, _DRAFT, _VISION, EXPERTS = "linear layers", "a draft layer", "a vision tower", "experts"
_OPTIONS: Mapping[str, str] = {
    "mamba-cache-mode": _LINEAR,
    "mamba-block-size": _LINEAR,
    "mamba-ssm-cache-dtype": _LINEAR,
    "gdn-prefill-backend": _LINEAR,
    "language-model-only": _VISION,
    "enable-expert-parallel": EXPERTS,
    "moe-backend": EXPERTS,
}
_FORMATS = {name: f"the {name} format" for name in ("qwen3", "qwen3_coder", "qwen3_xml")}
"""Parsers of one family's own way to write reasoning or tool calls."""

# Source: public config.json of the checkpoints; vLLM's guides to tool calls and to reasoning.
_FAMILIES: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = tuple(
    (re.compile(name, re.IGNORECASE), frozenset(parts))
    for name, parts in (
        (r"Qwen3\.5", {_LINEAR, _DRAFT, _VISION, *_FORMATS.values()}),
        (r"Qwen3-Next", {_LINEAR, _DRAFT, EXPERTS, _FORMATS["qwen3"]}),
        (r"Qwen3-Coder-\d", {_FORMATS["qwen3_coder"], _FORMATS["qwen3_xml"]}),
        (r"Qwen3-\d", {_FORMATS["qwen3"]}),
        (r"DeepSeek-(V3|R1(?!-Distill))", {_DRAFT, EXPERTS}),
        (r"Qwen2(\.5)?-\d|Llama-[23]|Mistral-7B", set()),
    )
)
# Source: Qwen's own naming: parameters in all, then those active for one token.
EXPERTS_IN_A_NAME = re.compile(r"-A\d+(\.\d+)?B\b")


def parts_of(names: Iterable[str]) -> frozenset[str] | None:
    """What a model's architecture has of what options are for, by the first of its names that is known; None where none is."""
    for name in names:
        for family, parts in _FAMILIES:
            if family.search(name):
                return parts | {EXPERTS} if EXPERTS_IN_A_NAME.search(name) else parts
    return None


def part_for(option: str, value: object) -> str | None:
    """The part of a model's architecture that an engine option with this value is for; None where every model takes it.

    `option` is vLLM's long name, `value` as `facts.engines.parse` reads it.
    """
    if value is None or value is False:
        return None
    if option == "speculative-config":
        return _DRAFT if isinstance(value, Mapping) and str(value.get("method", "")).endswith("mtp") else None
    if option in ("reasoning-parser", "tool-call-parser"):
        return _FORMATS.get(str(value))
    return _OPTIONS.get(option)
