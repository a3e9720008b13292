"""A model's shape (parameters, number formats, attention) from its checkpoint's config.json.

Source: transformers' names of the keys of config.json; vLLM 0.18.1, model_executor/models, for the cache of each kind of model.
Norms, biases, convolutions and gates are not counted: less than 0.2 % of any model in the catalog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import lcm
from typing import Any, Final, Literal, NamedTuple

from facts.fp8_blocks import Blocks
from facts.memory import GIB, AdapterWidths, Architecture
from facts.texts import shortened

Kind = Literal["gqa", "mla", "hybrid", "swa"]
"""Cache of a running sequence: keys and values of every token (gqa), one latent vector per token (mla), states plus some layers of keys
and values (hybrid), or windows of tokens plus some full layers (swa)."""

LINEAR, DRAFT, VISION, EXPERTS = "linear layers", "a draft layer", "a vision tower", "experts"

# Source: model types of vLLM 0.18.1 with this attention; Gemma 4 since 0.19.1, MiniMax-M3 and Nemotron-H as in 0.33.0. Any other type is
# refused, because the same keys may have another meaning.
_MODEL_TYPES: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"), "gqa"),
    **dict.fromkeys(("qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), "gqa"),
    **dict.fromkeys(("glm4_moe", "minimax_m2", "minimax_m3", "minimax_m3_vl", "seed_oss"), "gqa"),
    **dict.fromkeys(("deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe_lite", "glm_moe_dsa"), "mla"),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "nemotron_h"), "hybrid"),
    **dict.fromkeys(("gpt_oss", "gemma3_text", "gemma4_text", "llama4_text"), "swa"),
}  # fmt: skip
# Source: model cards of Qwen3.5, "Processing Ultra-Long Texts"; vLLM 0.18.1 and 0.33.0, config/model.py, _update_nested: an override is
# merged into a config inside of the config, and replaces `rope_parameters` with its rope_theta anywhere else.
_YARN_TYPES: Final = frozenset({"qwen3_5_text", "qwen3_5_moe_text"})
# Source: vLLM 0.18.1 and 0.33.0, packed_modules_mapping of models/qwen3_5.py and qwen3_next.py: of Qwen3.5 in_proj_qkvz holds in_proj_qkv
# and in_proj_z, of Qwen3-Next a matrix of that name.
_SPLIT_INPUT_TYPES: Final = frozenset({"qwen3_5_text", "qwen3_5_moe_text"})
_FULL, _LINEAR_LAYER, _WINDOW, _CHUNK = "full_attention", "linear_attention", "sliding_attention", "chunked_attention"
# Source: transformers' configuration classes: order of layers if config.json has no layer_types. Every n-th layer is full.
_FULL_EVERY: Final[Mapping[str, tuple[int, str]]] = {
    "gemma3_text": (6, _WINDOW),
    "gemma4_text": (6, _WINDOW),
    "llama4_text": (4, _CHUNK),
    "qwen3_next": (4, _LINEAR_LAYER),
    "qwen3_5_text": (4, _LINEAR_LAYER),
    "qwen3_5_moe_text": (4, _LINEAR_LAYER),
    "gpt_oss": (2, _WINDOW),
}
# Source: vLLM 0.33.0, models/nemotron_h.py: each layer of the pattern is a mixer alone or a feed-forward part alone.
_PATTERN: Final[Mapping[str, str]] = {"M": _LINEAR_LAYER, "*": _FULL, "E": "experts", "-": "dense"}
_LAYERS_OF: Final[Mapping[Kind, frozenset[str]]] = {
    "gqa": frozenset({_FULL, _WINDOW}),
    "mla": frozenset({_FULL}),
    "hybrid": frozenset({_FULL, _LINEAR_LAYER}),
    "swa": frozenset({_FULL, _WINDOW, _CHUNK}),
}
# Largest sizes that are read; larger ones are mistakes, and would take memory and time here. Assumed: at least four times the largest of
# a public model, in comments (config.json of Llama 3.1 405B, Llama 4 Scout, Gemma 3 and 4, Qwen3.5, Kimi K2, DeepSeek V3).
MOST_LAYERS: Final = 1_024  # 126
_MOST: Final[Mapping[str, int]] = {
    **dict.fromkeys(("num_hidden_layers", "first_k_dense_replace", "mtp_num_hidden_layers"), MOST_LAYERS),
    **dict.fromkeys(("num_nextn_predict_layers", "full_attention_interval", "sliding_window_pattern"), MOST_LAYERS),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads", "num_global_key_value_heads"), 1_024),  # 128
    **dict.fromkeys(("index_n_heads", "linear_num_key_heads", "linear_num_value_heads"), 1_024),  # 64
    **dict.fromkeys(("mamba_num_heads", "n_groups"), 1_024),  # 128
    **dict.fromkeys(
        ("head_dim", "global_head_dim", "v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim"), 4_096
    ),  # 512
    **dict.fromkeys(("index_head_dim", "linear_key_head_dim", "linear_value_head_dim"), 4_096),  # 128
    **dict.fromkeys(("ssm_state_size", "mamba_head_dim", "sparse_index_dim", "sparse_num_index_heads"), 4_096),  # 128
    **dict.fromkeys(("linear_conv_kernel_dim", "conv_kernel"), 256),  # 4
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "n_shared_experts"), 4_096),  # 512
    **dict.fromkeys(("num_experts_per_tok", "experts_per_token", "top_k_experts"), 4_096),  # 10
    "vocab_size": 2**21,  # 262,208
    **dict.fromkeys(("max_position_embeddings", "sliding_window", "attention_chunk_size"), 2**26),  # 10,485,760
    "spatial_merge_size": 64,  # 2
}
_MOST_WIDE: Final = 2**18
"""Of every other size, which is a width. The largest is 53,248."""
MOST_BYTES: Final = 4 * 2**20
"""Largest config.json that is read. Assumed: forty times the largest of the catalog, with its list of layers that were not quantized."""
# Bytes per weight, including scales: FP8 in blocks of 128 x 128, NVFP4 one byte for 16, MXFP4 one for 32, 4-bit integers 2.5 for 128,
# unless the checkpoint names its groups.
FORMAT_BYTES: Final[Mapping[str, float]] = {
    "bf16": 2,
    "fp8": 1,
    "int8": 1,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4": 0.5 + 2.5 / 128,
}
_METHODS: Final[Mapping[str, str]] = {
    "fp8": "fp8",
    "mxfp4": "mxfp4",
    "awq": "int4",
    "gptq": "int4",
    "nvfp4": "nvfp4",
}
_WHOLE_MODULE = re.compile(r"(self_attn|linear_attn|shared_experts?)[.*]*$")
# Parameters of a vision tower are rounded to 50 million, because its merger and patches differ between models.
_TOWER_STEP = 50e6
# Source: vLLM, model_executor/models/: GELU in gemma3.py and gemma4.py, a clamped SwiGLU in gpt_oss.py and MiniMax-M3, squared ReLU in
# nemotron_h.py.
_OTHER_ACTIVATIONS: Final = ("gemma", "gpt_oss", "minimax_m3", "nemotron_h")
# Assumed: hidden states of a token that are in memory with the widest layer's values: residual, input and output. Four explain the
# memory of Qwen3-32B and Qwen3.5-27B on an H200 to within 0.4 GiB (facts/data/memory.yaml).
_HIDDEN_STATES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """One checkpoint. Sizes are those of the whole model, before tensor parallelism."""

    name: str
    kind: Kind
    architecture: Architecture
    parameters: float
    """Parameters of the language model, including embeddings, without draft and vision tower."""
    active_parameters: float
    """Parameters used for one token, including the output head."""
    text_weights_gib: float
    draft_weights_gib: float
    """The multi-token-prediction layer, without embeddings and output head, which are the model's."""
    vision_weights_gib: float
    """The vision tower, not loaded with `--language-model-only`; 0 without one."""
    weight_format: str
    """Number format of most weights: bf16, fp8, int8, nvfp4, mxfp4 or int4."""
    has_key_bias: bool
    """Whether the keys of its attention get a learned bias, which can be large."""
    blocks: Blocks | None
    """Blocks of FP8 weights with scales of their own; None if the weights have none."""
    experts: int
    """Routed experts per layer; 0 for a dense model."""
    attention_heads: int
    """Query heads; tensor parallelism must divide them."""
    attention_width: int
    """Query heads times head size."""
    step_width: int
    """Values per token at the widest layer of a step: gate, up and their product for each active expert, and hidden states."""
    vocabulary: int
    context_tokens: int
    """Longest prompt plus output."""
    extends_by_yarn: bool
    """Whether vLLM's `--hf-overrides` can add YaRN to its rotary embedding."""
    adapter_widths: AdapterWidths
    """Size of a LoRA adapter's slot."""
    uses_silu: bool
    """Whether SiLU is the activation of its feed-forward layers."""
    splits_linear_inputs: bool
    """Whether checkpoints have the input matrix of a linear layer in parts, which vLLM merges."""

    @property
    def weights_gib(self) -> float:
        """All weights of the checkpoint."""
        return self.text_weights_gib + self.draft_weights_gib + self.vision_weights_gib

    @property
    def linear_state_bytes(self) -> int:
        """Bytes of one sequence's recurrent state in all linear layers."""
        shape = self.architecture
        each = 4 if shape.linear_state_dtype == "float32" else 2
        return shape.linear_attention_layers * shape.linear_state_values * each

    @property
    def parts(self) -> frozenset[str]:
        """Parts of its architecture that engine options apply to."""
        has = {
            LINEAR: self.architecture.linear_attention_layers,
            DRAFT: self.architecture.mtp_layers,
            VISION: self.vision_weights_gib,
            EXPERTS: self.experts,
        }
        return frozenset(part for part, there in has.items() if there)


def from_config(config: Mapping[str, Any], name: str) -> ModelShape:
    """The model shape of a config.json. Raises ValueError with the wrong key and the known values."""
    return _Reader(config, name).shape()


class _State(NamedTuple):
    """Heads and sizes of a linear layer's state, as `Architecture` has them."""

    key_heads: int = 0
    value_heads: int = 0
    key_size: int = 0
    value_size: int = 0
    kernel: int = 0

    @property
    def keys(self) -> int:
        return self.key_heads * self.key_size

    @property
    def values(self) -> int:
        return self.value_heads * self.value_size


# Source: vLLM 0.33.0, layers/mamba/mamba_utils.py: a Mamba-2's state is as large as that of a Gated DeltaNet with these heads, and its
# matrices are, too.
_MAMBA_KEYS: Final = ("n_groups", "mamba_num_heads", "ssm_state_size", "mamba_head_dim", "conv_kernel")
_DELTA_KEYS: Final = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)


class _Reader:
    """Reads the language model's part of one config.json."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self._name = name
        self._text: Mapping[str, Any] = {**config, **self._section(config, "text_config")}
        self._vision = self._section(config, "vision_config")
        self._type = str(self._text.get("model_type") or "")
        if self._type not in _MODEL_TYPES:
            raise self._error("model_type", self._type or None, ", ".join(sorted(_MODEL_TYPES)))
        self._hidden, self._vocabulary = self._count("hidden_size"), self._count("vocab_size")
        self._heads, self._layers = self._count("num_attention_heads"), self._count("num_hidden_layers")
        self._kv_heads = self._count("num_key_value_heads", self._heads)
        self._head_size = self._count("head_dim", max(1, self._hidden // self._heads))
        if not self._is_latent and self._heads % self._kv_heads:
            raise self._error("num_key_value_heads", self._kv_heads, f"a divisor of num_attention_heads, {self._heads}")
        self._experts = self._any("num_experts", "num_local_experts", "n_routed_experts")
        self._chosen = self._any("num_experts_per_tok", "experts_per_token", "top_k_experts") if self._experts else 0
        if not min(1, self._experts) <= self._chosen <= self._experts:
            raise self._error(
                "num_experts_per_tok", self._chosen or None, f"1 to {self._experts}, the number of experts"
            )
        # Without a gate: up and down.
        self._matrices = 2 if self._type == "nemotron_h" else 3
        self._dense_layers = frozenset(self._dense())
        self._quantization = self._section(self._text, "quantization_config") or self._section(
            self._text, "compression_config"
        )
        self._format, self._kept = self._number_format()
        self._weight_bytes = self._bytes_of_a_weight()

    def shape(self) -> ModelShape:
        """The model's shape."""
        kinds = self._layer_types()
        architecture = self._architecture(kinds)
        mixers = {kind: self._mixer(kind) for kind in (*sorted(set(kinds)), _FULL)}
        dense = self._feeds()
        feeds = {is_dense: self._feed_forward(is_dense) for is_dense in set(dense)}
        blocks = reduce(_Cost.__add__, (*(mixers[kind] for kind in kinds), *(feeds[is_dense] for is_dense in dense)))
        head = self._vocabulary * self._hidden
        tables = 1 if self._flag("tie_word_embeddings", self._type.startswith("gemma")) else 2
        # One more layer of the same kind, and the projection of hidden state and embedding.
        draft = (
            mixers[_FULL]
            + (feeds[dense[-1]] if dense else _Cost.of(0, 0))
            + _Cost.of(2 * self._hidden**2, self._bytes())
        )
        return ModelShape(
            name=self._name,
            kind=_MODEL_TYPES[self._type] if not architecture.window_layers else "swa",
            architecture=architecture,
            parameters=blocks.parameters + tables * head,
            active_parameters=blocks.active + head,
            text_weights_gib=(blocks.weight_bytes + 2 * tables * head) / GIB,
            draft_weights_gib=draft.weight_bytes * architecture.mtp_layers / GIB,
            vision_weights_gib=2 * self._tower() / GIB,
            weight_format=self._format,
            # Source: vLLM 0.18.1 and 0.33.0, models/qwen2.py (also of Qwen2-VL and 2.5-VL) and qwen2_moe.py: q, k and v have a bias in
            # every Qwen2 and Qwen2.5; Qwen3 has none.
            has_key_bias=self._type.startswith("qwen2"),
            blocks=self._blocks(dense),
            experts=self._experts,
            attention_heads=self._heads,
            attention_width=self._heads * self._head_size,
            step_width=self._step_width(),
            vocabulary=self._vocabulary,
            context_tokens=self._count("max_position_embeddings"),
            adapter_widths=self._adapter_widths(kinds, dense),
            extends_by_yarn=self._extends_by_yarn(),
            uses_silu=not self._type.startswith(_OTHER_ACTIVATIONS),
            splits_linear_inputs=self._type in _SPLIT_INPUT_TYPES,
        )

    def _adapter_widths(self, kinds: Sequence[str], dense: Sequence[bool]) -> AdapterWidths:
        """Inputs and outputs of the matrices that vLLM adapts. A merged matrix, such as q, k and v, has inputs for each of its parts.

        Embeddings and output head are counted for every model, though classes without `embedding_modules` do not adapt them, and gate
        and up projection of experts apart, though some classes adapt them as one: at most what vLLM allocates.
        """
        mixers = {kind: self._adapted_mixer(kind) for kind in set(kinds)}
        feeds = {is_dense: self._adapted_feed_forward(is_dense) for is_dense in set(dense)}
        parts = [*(mixers[kind] for kind in kinds), *(feeds[is_dense] for is_dense in dense)]
        tables = 2 * (self._vocabulary + self._hidden)
        return AdapterWidths(whole=tables + sum(whole for whole, _ in parts), split=sum(split for _, split in parts))

    def _adapted_mixer(self, kind: str) -> tuple[int, int]:
        """Values of one block's attention or linear layer: whole on every GPU, and split."""
        hidden, heads = self._hidden, self._heads
        if kind == _LINEAR_LAYER:
            state = self._state()
            # Parts: q, k, v, z; a and b; the convolution; the output. Mamba-2: C, B, x, z; dt, which is one.
            whole = 4 * hidden + 2 * hidden + state.kernel + hidden
            return whole, 4 * state.keys + 4 * state.values + 2 * state.value_heads
        if self._is_latent:
            nope, rope, value = (self._count(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
            latent, queries = self._count("kv_lora_rank"), self._any("q_lora_rank")
            # Keys and values down and up, queries down and up, the output, the index.
            whole = hidden + latent + rope + latent + (hidden + 2 * queries if queries else hidden) + hidden
            if index := self._any("index_head_dim"):
                index_heads = self._count("index_n_heads")
                whole += queries + index_heads * index + hidden + index + hidden + index_heads
            return whole, heads * (nope + value) + heads * (nope + rope) + heads * value
        kv_heads, size = self._global_heads() if kind == _FULL else (self._kv_heads, self._head_size)
        gate = 2 if self._flag("attn_output_gate", self._type == "qwen3_next") else 1
        return 3 * hidden + hidden, (gate * heads + 2 * kv_heads) * size + heads * size

    def _adapted_feed_forward(self, is_dense: bool) -> tuple[int, int]:
        """Values of one block's feed-forward part: gate, up and down; for every expert, too."""
        hidden = self._hidden
        if is_dense:
            return 3 * hidden, 3 * self._dense_width()
        shared = self._shared_width()
        whole = 3 * hidden * (self._experts + (1 if shared else 0)) + hidden + self._experts
        return whole, 3 * (self._experts * self._expert_width() + shared)

    def _extends_by_yarn(self) -> bool:
        rope = self._section(self._text, "rope_parameters") or self._section(self._text, "rope_scaling")
        plain = rope.get("rope_type", rope.get("type", "default")) == "default"
        # A checkpoint without vision tower has no text_config, in which alone vLLM merges an override with rope_parameters.
        return plain and self._type in _YARN_TYPES and bool(self._vision)

    def _pattern(self) -> Sequence[str]:
        """What each layer of a Nemotron-H is."""
        given = self._text.get("hybrid_override_pattern")
        if not isinstance(given, str) or len(given) != self._layers or not set(given) <= _PATTERN.keys():
            raise self._error(
                "hybrid_override_pattern", given, f"num_hidden_layers, {self._layers}, of {' '.join(_PATTERN)}"
            )
        return [_PATTERN[one] for one in given]

    def _feeds(self) -> Sequence[bool]:
        """The feed-forward parts in order: whether each is dense."""
        if self._type == "nemotron_h":
            return [one == "dense" for one in self._pattern() if one in ("dense", "experts")]
        return [not self._experts or i in self._dense_layers for i in range(self._layers)]

    def _layer_types(self) -> Sequence[str]:
        given = self._text.get("layer_types")
        layers = self._layers
        if self._type == "nemotron_h":
            given = [one for one in self._pattern() if one in (_FULL, _LINEAR_LAYER)]
            layers = len(given)
        if given is None:
            every, other = _FULL_EVERY.get(self._type, (1, _FULL))
            every = max(1, self._any("full_attention_interval", "sliding_window_pattern", default=every))
            given = [_FULL if (i + 1) % every == 0 else other for i in range(self._layers)]
            if other == _FULL and self._any("sliding_window") and self._flag("use_sliding_window", True):
                given = [_WINDOW] * self._layers
        if not isinstance(given, list):
            raise self._error("layer_types", given, "a list with the kind of each layer")
        if len(given) != layers:
            raise self._error("layer_types", f"{len(given)} layers", f"{self._layers}, as num_hidden_layers says")
        known = _LAYERS_OF[_MODEL_TYPES[self._type]]
        if unknown := [one for one in given if not isinstance(one, str) or one not in known]:
            raise self._error("layer_types", unknown[0], f"{', '.join(sorted(known))} in a {self._type}")
        if known is _LAYERS_OF["hybrid"] and _FULL not in given:
            # vLLM gives a state the size of an attention block (settings of hybrid models), and without attention there is none.
            raise self._error(
                "num_hidden_layers", self._layers, f"enough layers for one of {_FULL}; all of these are {_LINEAR_LAYER}"
            )
        return given

    def _architecture(self, kinds: Sequence[str]) -> Architecture:
        full, linear = kinds.count(_FULL), kinds.count(_LINEAR_LAYER)
        windows, chunks = kinds.count(_WINDOW), kinds.count(_CHUNK)
        if windows and chunks:
            raise self._error("layer_types", "windows and chunks", "one of the two, as vLLM supports")
        latent = self._count("kv_lora_rank") + self._count("qk_rope_head_dim") if self._is_latent else 0
        # Source: vLLM 0.18.1, deepseek_v2.py: fp8, and a float32 scale per 128 values. 0.33.0, models/minimax_m3/common/indexer.py: a key
        # in 16 bits; counted in every layer, though the first three of MiniMax-M3 have none (at most 2 % more than there is).
        index = self._any("index_head_dim")
        index_bytes = index + index // 128 * 4 + 2 * self._any("sparse_index_dim", of=self._sparse)
        global_heads, global_size = self._global_heads()
        state = self._state() if linear else _State()
        pages = (self._kv_heads * self._head_size, global_heads * global_size)
        if windows + chunks and full and max(pages) % min(pages):
            raise self._error(
                "head_dim", self._head_size, "a size that global_head_dim is a multiple of, or the reverse"
            )
        return Architecture(
            full_attention_layers=full,
            kv_heads=1 if latent else global_heads,
            head_size=0 if latent else global_size,
            latent_size=latent,
            indexer_bytes=index_bytes,
            window_layers=windows + chunks,
            window_tokens=self._count("attention_chunk_size" if chunks else "sliding_window")
            if windows + chunks
            else 0,
            window_is_chunk=chunks > 0,
            window_kv_heads=self._kv_heads if windows + chunks else 1,
            window_head_size=self._head_size if windows + chunks else 0,
            linear_attention_layers=linear,
            linear_key_heads=state.key_heads,
            linear_value_heads=state.value_heads,
            linear_key_size=state.key_size,
            linear_value_size=state.value_size,
            convolution_kernel=state.kernel,
            # Source: vLLM 0.18.1, config.py: keys of Qwen3.5 and Nemotron-H; without them the state has the model's type, or of Nemotron-H
            # float32.
            linear_state_dtype=self._state_dtype() if linear else "float32",
            mtp_layers=self._any(
                "mtp_num_hidden_layers", "num_nextn_predict_layers", default=1 if self._type == "qwen3_next" else 0
            ),
        )

    @property
    def _is_latent(self) -> bool:
        return _MODEL_TYPES[self._type] == "mla"

    def _state_dtype(self) -> str:
        key, default = "mamba_ssm_dtype", "bfloat16"
        if self._type == "nemotron_h":
            key, default = "mamba_ssm_cache_dtype", "float32"
        chosen = self._text.get(key) or default
        if chosen not in ("float32", "bfloat16", "float16"):
            raise self._error(key, chosen, "float32, bfloat16, float16")
        return str(chosen)

    def _state(self) -> _State:
        """The state of a linear layer."""
        keys = _MAMBA_KEYS if self._type == "nemotron_h" else _DELTA_KEYS
        return _State(*map(self._count, keys))

    @property
    def _sparse(self) -> Mapping[str, Any]:
        return self._section(self._text, "sparse_attention_config")

    def _global_heads(self) -> tuple[int, int]:
        """KV heads in full-attention layers, and their size."""
        return (
            self._count("num_global_key_value_heads", self._kv_heads),
            self._count("global_head_dim", self._head_size),
        )

    def _mixer(self, kind: str) -> _Cost:
        """The attention or linear layer of one block."""
        hidden = self._hidden
        if kind == _LINEAR_LAYER:
            state = self._state()
            return _Cost.of(hidden * (2 * state.keys + 3 * state.values), self._bytes("linear_attn"))
        if self._is_latent:
            nope, rope, value = (self._count(key) for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
            latent, queries = self._count("kv_lora_rank"), self._any("q_lora_rank")
            weights = (
                (
                    hidden * queries + queries * self._heads * (nope + rope)
                    if queries
                    else hidden * self._heads * (nope + rope)
                )
                + hidden * (latent + rope)
                + latent * self._heads * (nope + value)
                + self._heads * value * hidden
            )
            if index := self._any("index_head_dim"):
                weights += (queries * index + hidden) * self._count("index_n_heads") + hidden * index
            return _Cost.of(weights, self._bytes("self_attn"))
        kv_heads, size = self._global_heads() if kind == _FULL else (self._kv_heads, self._head_size)
        gate = 2 if self._flag("attn_output_gate", self._type == "qwen3_next") else 1
        one_for_both = kind == _FULL and self._flag("attention_k_eq_v", False)
        weights = (
            hidden * (gate * self._heads * size + (1 if one_for_both else 2) * kv_heads * size)
            + self._heads * size * hidden
        )
        if index := self._any("sparse_index_dim", of=self._sparse):
            weights += hidden * index * (self._any("sparse_num_index_heads", of=self._sparse) + 1)
        return _Cost.of(weights, self._bytes("self_attn"))

    def _feed_forward(self, is_dense: bool) -> _Cost:
        """The feed-forward part of one block: two or three matrices, or as many per expert."""
        hidden, chosen = self._hidden, self._chosen
        if is_dense:
            return _Cost.of(self._matrices * hidden * self._dense_width(), self._bytes())
        each = self._matrices * self._expert_input() * self._expert_width()
        shared = self._matrices * hidden * self._shared_width()
        # And the projections to the experts' input and back, which quantized checkpoints keep in 16 bits, too.
        router = hidden * (self._experts + 2 * self._any("moe_latent_size"))
        return _Cost(
            self._experts * each + shared + router,
            chosen * each + shared + router,
            self._experts * each * self._bytes() + shared * self._bytes("shared_expert") + 2 * router,
        )

    def _step_width(self) -> int:
        dense = self._any("intermediate_size_mlp", "dense_intermediate_size", "intermediate_size")
        experts = 0
        if self._experts:
            experts = self._chosen * (3 * self._expert_width() + self._expert_input()) + 3 * self._shared_width()
        return max(3 * dense, experts) + _HIDDEN_STATES * self._hidden

    def _dense(self) -> Iterator[int]:
        """Numbers of the layers without experts in a model with experts."""
        yield from range(self._any("first_k_dense_replace"))
        yield from (layer for layer, has in enumerate(_list(self._text.get("moe_layer_freq"))) if not has)
        given = self._text.get("mlp_only_layers")
        for layer in () if given is None else given if isinstance(given, list) else (given,):
            yield self._checked("mlp_only_layers", layer, 0, MOST_LAYERS)

    def _dense_width(self) -> int:
        return self._any("intermediate_size_mlp", "dense_intermediate_size") or self._count("intermediate_size")

    def _expert_input(self) -> int:
        return self._any("moe_latent_size") or self._hidden

    def _expert_width(self) -> int:
        name = "moe_intermediate_size"
        return self._any(name, "expert_intermediate_size", "intermediate_size") or self._count(name)

    def _shared_width(self) -> int:
        """Width of the shared part next to the experts."""
        if self._type == "llama4_text" or self._flag("enable_moe_block", False):
            return self._count("intermediate_size")
        if count := self._any("n_shared_experts"):
            own = self._any("moe_shared_expert_intermediate_size", "shared_intermediate_size")
            return count * (own or self._count("moe_intermediate_size"))
        return self._any("shared_expert_intermediate_size", "shared_intermediate_size")

    def _tower(self) -> float:
        """Approximate parameters of the vision tower."""
        if not self._vision:
            return 0

        def number(*keys: str, default: int = 0) -> int:
            return self._any(*keys, default=default, of=self._vision)

        # In a Qwen2-VL hidden_size is the language model's, and the inner width a multiple.
        width = number("embed_dim", "hidden_size", "vt_hidden_size")
        inner = number("intermediate_size", "vt_intermediate_size", default=number("mlp_ratio") * width)
        # Source: vLLM 0.33.0, models/qwen2_5_vl.py, which alone has a gate.
        matrices = 3 if self._type.startswith("qwen2_5_vl") else 2
        depth = number("depth", "num_hidden_layers", "vt_num_hidden_layers")
        merged = width * number("spatial_merge_size", default=2) ** 2
        tower: float = depth * (4 * width**2 + matrices * width * inner) + merged**2 + merged * self._hidden
        return _TOWER_STEP * round(tower / _TOWER_STEP)

    def _number_format(self) -> tuple[str, frozenset[str]]:
        """The weights' format, and the modules that have 16 bits."""
        given = self._quantization
        if not given:
            return "bf16", frozenset()
        method = str(given.get("quant_method", "")).lower()
        named = str(given.get("quant_algo", "")).lower() if method == "modelopt" else method
        found = _compressed(given.get("config_groups")) if method == "compressed-tensors" else _METHODS.get(named)
        if found is None:
            known = ", ".join((*sorted(_METHODS), "modelopt with one of these", "compressed-tensors with one format"))
            raise self._error("quantization_config", f"{method} {given.get('quant_algo', '')}".strip() or None, known)
        ignored = [
            str(name)
            for key in ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules")
            for name in _list(given.get(key))
            if not re.search(r"vis|mtp", str(name))
        ]
        kept = {match[1].removesuffix("s") for name in ignored if (match := _WHOLE_MODULE.search(name))}
        return found, frozenset(kept)

    def _blocks(self, dense: Sequence[bool]) -> Blocks | None:
        given = self._quantization
        sizes = given.get("weight_block_size") or _weights(given.get("config_groups")).get("block_structure")
        if not sizes or self._format != "fp8":
            return None
        if not isinstance(sizes, list) or len(sizes) != 2:
            raise self._error("weight_block_size", sizes, "two whole numbers")
        keeps, has_heads = "self_attn" in self._kept, not self._is_latent
        return Blocks(
            side=lcm(*(self._checked("weight_block_size", size, 1, _MOST_WIDE) for size in sizes)),
            expert_width=self._expert_width() if self._experts else 0,
            dense_width=self._dense_width() if any(dense) else 0,
            shared_width=self._shared_width() if self._experts and "shared_expert" not in self._kept else 0,
            query_heads=0 if keeps else self._heads,
            kv_heads=self._kv_heads,
            # Latent attention has other matrices, of whole blocks at up to 16 GPUs in every model of the catalog.
            head_size=self._head_size if has_heads and not keeps else 0,
        )

    def _bytes_of_a_weight(self) -> float:
        weights = _weights(self._quantization.get("config_groups"))
        size = weights.get("group_size")
        if self._format != "int4" or isinstance(size, bool) or not isinstance(size, int) or size < 1:
            return FORMAT_BYTES[self._format]
        return 0.5 + (2 if weights.get("symmetric") is True else 2.5) / size

    def _bytes(self, module: str = "") -> float:
        return 2 if module in self._kept else self._weight_bytes

    def _section(self, of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = of.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self._error(key, value, "a mapping")
        return value or {}

    def _flag(self, key: str, default: bool) -> bool:
        value = self._text.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._error(key, value, "true or false")
        return default if value is None else value

    def _count(self, key: str, default: int | None = None) -> int:
        value = self._text.get(key)
        return default if value is None and default is not None else self._checked(key, value, 1, _most(key))

    def _any(self, *keys: str, default: int = 0, of: Mapping[str, Any] | None = None) -> int:
        """Value of the first of these keys that is there, or the default."""
        values = self._text if of is None else of
        found = next((key for key in keys if values.get(key) is not None), None)
        return default if found is None else self._checked(found, values[found], 0, _most(found))

    def _checked(self, key: str, value: object, least: int, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self._error(key, value, f"a whole number from {least} to {most:,}")
        return value

    def _error(self, key: str, value: object, known: str) -> ValueError:
        found = "is missing" if value is None else f"is {shortened(repr(value))}"
        return ValueError(f"{key} of {self._name}'s config.json {found}; known: {known}")


def _most(key: str) -> int:
    return _MOST.get(key.removeprefix("vt_"), MOST_LAYERS if key == "depth" else _MOST_WIDE)


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _weights(groups: object) -> Mapping[str, Any]:
    """What compressed-tensors' first group says of its weights."""
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    return weights if isinstance(weights, Mapping) else {}


def _compressed(groups: object) -> str | None:
    """The format of compressed-tensors' groups of layers; None if there are several, or if it is unknown."""
    found = set()
    for group in groups.values() if isinstance(groups, Mapping) else ():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if not isinstance(weights, Mapping):
            return None
        bits, floats = weights.get("num_bits"), weights.get("type") == "float"
        if bits == 8:
            found.add("fp8" if floats else "int8")
        elif bits == 4:
            found.add("nvfp4" if floats and weights.get("group_size") == 16 else "int4")
        else:
            return None
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class _Cost:
    """A part of one layer: parameters, active parameters of a token, and bytes."""

    parameters: float
    active: float
    weight_bytes: float

    @classmethod
    def of(cls, parameters: float, bytes_each: float) -> _Cost:
        return cls(parameters, parameters, parameters * bytes_each)

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(
            self.parameters + other.parameters, self.active + other.active, self.weight_bytes + other.weight_bytes
        )
