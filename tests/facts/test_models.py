"""Tests of models' shapes: what config.json says, what is refused, and what the catalogue comes to."""

from __future__ import annotations

from typing import Any

import pytest

from facts import ledger, memory
from facts.memory import GIB, QWEN3_5_27B, CacheLayout
from facts.model_config import MOST_LAYERS, ModelShape
from facts.models import CATALOGUE, called, from_config, of_the_article, parts_of
from tests.support.rows import each_row

GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 4,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
}
# Source: the vendors' names and cards: billions of parameters, and of those active for one token.
PUBLISHED = {
    "Qwen/Qwen3.5-4B": (4.2, 4.2),
    "Qwen/Qwen3.5-35B-A3B": (35, 3),
    "Qwen/Qwen3.5-122B-A10B": (122, 10),
    "nvidia/Qwen3.5-397B-A17B-NVFP4": (397, 17),
    "Qwen/Qwen3-32B": (32.8, 32.8),
    "Qwen/Qwen3-30B-A3B": (30.5, 3.3),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8": (480, 35),
    "openai/gpt-oss-20b": (21, 3.6),
    "openai/gpt-oss-120b": (117, 5.1),
    "meta-llama/Llama-3.3-70B-Instruct": (70.6, 70.6),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": (109, 17),
    "google/gemma-3-27b-it": (27, 27),
    "deepseek-ai/DeepSeek-V3.1": (671, 37),
    "Qwen/Qwen3.6-27B": (27, 27),
    "Qwen/Qwen3.6-35B-A3B-FP8": (35, 3),
    "zai-org/GLM-4.7-FP8": (355, 32),
    "zai-org/GLM-5.1-FP8": (744, 40),
    "moonshotai/Kimi-K2-Instruct": (1_026, 32),
    "moonshotai/Kimi-K2.5": (1_026, 32),
    "MiniMaxAI/MiniMax-M2.5": (230, 10),
    "MiniMaxAI/MiniMax-M2.7": (230, 10),
    "Qwen/Qwen3.8-27B-FP8": (27, 27),
    "MiniMaxAI/MiniMax-M3": (427, 26),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (31.6, 3.2),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": (120.6, 12.7),
}


def test_the_articles_model_is_what_its_config_says() -> None:
    shape = of_the_article()
    assert shape.architecture == QWEN3_5_27B
    assert (shape.kind, shape.weight_format, shape.context_tokens, shape.vocabulary) == (
        "hybrid",
        "fp8",
        262_144,
        248_320,
    )
    assert shape.text_weights_gib + shape.draft_weights_gib == pytest.approx(memory.WEIGHTS_AND_DRAFT_GIB, rel=0.01)


@each_row("id_", PUBLISHED)
def test_parameters_by_arithmetic_are_those_of_the_name(id_: str) -> None:
    total, active = PUBLISHED[id_]
    shape = CATALOGUE[id_].shape
    assert shape.parameters / 1e9 == pytest.approx(total, rel=0.02)
    assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.13)


@each_row("id_", CATALOGUE)
def test_a_listed_models_size_holds_its_weights(id_: str) -> None:
    listed = CATALOGUE[id_]
    assert listed.shape.weights_gib * memory.GIB / 1e9 <= listed.size_gb * 1.08
    assert listed.source


@pytest.mark.parametrize(
    ("id_", "per_token", "at_most_mb"),
    [
        ("Qwen/Qwen3.5-35B-A3B", 20_480, 64.4),
        ("openai/gpt-oss-120b", 36_864, 4.7),
        ("google/gemma-3-27b-it", 81_920, 436.2),
        ("deepseek-ai/DeepSeek-R1", 70_272, 0),
        ("meta-llama/Llama-3.3-70B-Instruct", 327_680, 0),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 6_144, 49.1),
        ("MiniMaxAI/MiniMax-M3", 138_240, 0),
    ],
)
def test_bytes_of_a_token_and_of_a_sequence(id_: str, per_token: int, at_most_mb: float) -> None:
    layout = CacheLayout(architecture=CATALOGUE[id_].shape.architecture, kv_cache_dtype="auto", speculative_tokens=0)
    assert memory.sequence_bytes_per_token(layout) == per_token
    assert memory.sequence_bytes_at_most(layout) / 1e6 == pytest.approx(at_most_mb, abs=0.05)


# Sources: the models' cards: parameters, and active ones; 0.67 billion of a Qwen2-VL and a Qwen2.5-VL are the vision tower's.
_QWEN2_7B = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
             "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768}  # fmt: skip
_QWEN2_MOE = {"num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 2560, "vocab_size": 151936,
              "shared_expert_intermediate_size": 20480}  # fmt: skip


@each_row(
    ("changes", "billions", "active", "tower"),
    [({"model_type": "qwen2_moe", **_QWEN2_MOE}, 57.4, 14, 0),
     ({"model_type": "qwen2_vl", "vision_config": {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "hidden_size": 3584}}, 7.6, 7.1, 0.67),
     ({"model_type": "qwen2_5_vl", "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420}}, 7.6, 7.1, 0.67)],
)  # fmt: skip
def test_parameters_of_kinds_of_qwen2(changes: dict[str, Any], billions: float, active: float, tower: float) -> None:
    shape = from_config({**_QWEN2_7B, **changes}, "a Qwen2")
    of_the_tower = shape.vision_weights_gib * GIB / 2
    found = (shape.parameters / 1e9, shape.active_parameters / 1e9, of_the_tower / 1e9)
    assert found == pytest.approx((billions, active, tower), rel=0.03, abs=0.03)
    assert shape.has_key_bias


def test_ranks_beyond_the_kv_heads_copy_them_and_a_latent_vector_is_never_split() -> None:
    def held(id_: str, ranks: int) -> int:
        architecture = CATALOGUE[id_].shape.architecture.on_one_of(ranks)
        return memory.kv_bytes_per_token(CacheLayout(architecture=architecture))

    moe = "Qwen/Qwen3.5-35B-A3B"
    assert held(moe, 2) == held(moe, 8) == held(moe, 1) // 2
    assert held("deepseek-ai/DeepSeek-V3.1", 8) == held("deepseek-ai/DeepSeek-V3.1", 1)


@each_row(
    ("changes", "told"),
    [
        ({"model_type": "mamba2"}, "model_type of m's config.json is 'mamba2'; known: .*llama"),
        ({"model_type": None}, "model_type"),
        ({"hidden_size": None}, "hidden_size of m's config.json is missing"),
        ({"layer_types": ["full_attention"]}, "layer_types .* '1 layers'"),
        (
            {"layer_types": ["full_attention", "conv", "full_attention", "conv"]},
            "layer_types .* 'conv'; known: .*full_attention",
        ),
        ({"layer_types": ["sliding_attention", "chunked_attention"] * 2}, ".*windows and chunks"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            "quantization_config .* 'bitsandbytes'; known: awq",
        ),
        ({"head_dim": 48, "global_head_dim": 64}, "head_dim .* global_head_dim"),
        ({"model_type": "nemotron_h"}, "hybrid_override_pattern .* missing"),
        (
            {"model_type": "nemotron_h", "hybrid_override_pattern": "M*E"},
            "hybrid_override_pattern .* num_hidden_layers, 4",
        ),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M*EX"}, "hybrid_override_pattern .* M"),
        # What no model has.
        ({"num_hidden_layers": MOST_LAYERS + 1}, "num_hidden_layers of m's config.json"),
        ({"num_key_value_heads": 7}, "num_key_value_heads of m's config.json"),
        ({"num_experts_per_tok": 33}, "num_experts_per_tok of m's config.json"),
        ({"num_experts_per_tok": None}, "num_experts_per_tok of m's config.json"),
        ({"num_local_experts": "32"}, "num_local_experts of m's config.json"),
        ({"layer_types": ["linear_attention"] * 4}, "layer_types of m's config.json"),
        ({"text_config": []}, "text_config of m's config.json"),
        ({"quantization_config": [1]}, "quantization_config of m's config.json"),
        *(
            ({"quantization_config": {"quant_method": "fp8", "weight_block_size": block}}, "weight_block_size of m's")
            for block in ([128], [128, "n"])
        ),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings of m's config.json"),
        ({"vision_config": {"hidden_size": -1}}, "hidden_size of m's config.json"),
    ],
)
def test_a_shape_that_is_not_known_is_refused_with_its_key(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}"):
        from_config({**GPT_OSS, **changes}, "m")


@each_row(
    ("weights", "each"),
    [({"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True}, 0.5625),
     ({"num_bits": 4, "type": "int", "group_size": 32}, 0.578125),
     ({"num_bits": 4, "type": "int", "group_size": -1}, 0.51953125),
     ({"num_bits": 4, "type": "float", "group_size": 16}, 0.5625)],
)  # fmt: skip
def test_bytes_of_a_weight_by_the_group_of_its_scale(weights: dict[str, Any], each: float) -> None:
    quantization = {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": weights}}}
    plain, packed = (
        from_config({**full_entry("Qwen/Qwen3-32B")["config"], "quantization_config": found}, "m")
        for found in (None, quantization)
    )
    tables = 2 * plain.vocabulary * 5_120
    assert (packed.text_weights_gib * GIB - 2 * tables) / (plain.parameters - tables) == pytest.approx(each)


@pytest.mark.parametrize(
    ("quantization", "form"),
    [
        (None, "bf16"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "gptq", "bits": 4}, "int4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
    ],
)
def test_the_format_of_the_weights(quantization: dict[str, Any] | None, form: str) -> None:
    assert from_config({**GPT_OSS, "quantization_config": quantization}, "m").weight_format == form


EACH_KIND = (
    "Qwen/Qwen3.5-35B-A3B",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "MiniMaxAI/MiniMax-M3",
    "deepseek-ai/DeepSeek-V3.2",
    "google/gemma-4-26B-A4B-it",
    "openai/gpt-oss-20b",
    "meta-llama/Llama-3.3-70B-Instruct",
)
SWITCHED = {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4, "type": "float"}}}}
# What no public model has, wrong types, and amounts that take memory or time.
STRANGE: tuple[Any, ...] = (
    None, "x", "128", -1, 0, 1, 2, 3, True, 1.5, 4096.0, float("nan"), 10**8, 10**400, [], ["x"], [[1]], [1] * 3_000, {}, {"a": 1},
    {"quant_method": []}, {**SWITCHED, "ignore": {"a": 1}}, {"quant_method": "x" * 3_000}, ["full_attention"] * 1_025,
)  # fmt: skip
UNSET = (
    "layer_types", "sliding_window_pattern", "full_attention_interval", "mlp_only_layers", "text_config", "vision_config",
    "rope_scaling", "hybrid_override_pattern", "moe_layer_freq", "sparse_attention_config", "quantization_config", "compression_config",
    "tie_word_embeddings", "sliding_window", "use_sliding_window", "attn_output_gate", "mtp_num_hidden_layers", "n_shared_experts",
    "num_experts", "num_experts_per_tok", "head_dim", "num_key_value_heads",
)  # fmt: skip


def full_entry(id_: str) -> dict[str, Any]:
    entries = ledger.section("models", "models")
    return {**entries.get(entries[id_].get("like"), {}), **entries[id_]}


def every_amount(shape: ModelShape, speculative_tokens: int) -> None:
    layout = CacheLayout(architecture=shape.architecture, batched_tokens=2_048, speculative_tokens=speculative_tokens)
    assert memory.startup_blocks_per_request(layout, 4_096) > 0
    assert memory.running_blocks_per_request(layout, 4_096) >= 0
    assert memory.pool_blocks(layout, 10.0) >= 0
    assert memory.logged_kv_tokens(layout, 100) >= 0
    assert shape.weights_gib > 0


@pytest.mark.parametrize("id_", EACH_KIND)
def test_whatever_a_file_says_it_is_a_shape_that_can_be_sized_or_a_short_refusal(id_: str) -> None:
    config = full_entry(id_)["config"]
    for key in {**config, **dict.fromkeys(UNSET)}:
        for value in STRANGE:
            for inside in (False, True):
                part = (
                    {key: {"hidden_size": value, "depth": value}} if inside and key == "vision_config" else {key: value}
                )
                changed = {**config, "text_config": part} if inside and key != "vision_config" else {**config, **part}
                try:
                    shape = from_config(changed, "m")
                except ValueError as error:
                    assert len(str(error)) < 700, (key, value)
                    continue
                for drafts in (0, 1):
                    every_amount(shape, drafts)


@each_row("layers", [1, 2, 3, 4, 5])
@each_row("id_", CATALOGUE)
def test_a_model_cut_to_a_few_layers_is_sized_or_refused_by_its_layers(id_: str, layers: int) -> None:
    config = {**full_entry(id_)["config"], "num_hidden_layers": layers}
    config.pop("layer_types", None)
    if pattern := config.get("hybrid_override_pattern"):
        config["hybrid_override_pattern"] = pattern[:layers]
    try:
        shape = from_config(config, "m")
    except ValueError as error:
        assert "num_hidden_layers" in str(error)
        assert "linear_attention" in str(error)
        assert layers < 4 or "*" not in (pattern or "*")[:layers]
    else:
        for drafts in (0, 1):
            every_amount(shape, drafts)


def test_a_models_copies_are_called_by_its_name_and_a_distilled_one_is_not() -> None:
    assert called(["/models/Qwen3.5-27B-FP8"]) is CATALOGUE["Qwen/Qwen3.5-27B-FP8"].shape
    assert called(["my/qwen3.5-27b-fp8-tuned"]) is CATALOGUE["Qwen/Qwen3.5-27B-FP8"].shape
    assert called(["deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "my/own"]) is None
    assert called(["my/own"]) is None


def test_parts_come_from_the_shape_and_formats_from_the_catalogue() -> None:
    gpt, glm = CATALOGUE["openai/gpt-oss-20b"].shape, CATALOGUE["zai-org/GLM-4.7-Flash"].shape
    assert parts_of(["openai/gpt-oss-20b"], gpt) == {"experts"}
    assert parts_of(["zai-org/GLM-4.7-Flash"], glm) == {"experts", "a draft layer"}
    assert parts_of(["my/own"], None) is None
    # A fine-tune's formats are unknown, whatever its name resembles; a folder that ends with the id is that model.
    formats = {"the qwen3 format", "the qwen3_coder format"}
    assert parts_of(["acme/Qwen3-32B-support"]) == formats
    assert parts_of(["/models/Qwen/Qwen3-32B"]) == {"the qwen3 format"}


@each_row(
    ("id_", "ranks", "whole_experts", "cut"),
    [
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", 4, False, {}),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", 8, False, {"experts": 320}),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", 8, True, {}),
        ("MiniMaxAI/MiniMax-M2.5", 8, False, {"experts": 192}),
        ("Qwen/Qwen3.5-35B-A3B-FP8", 8, True, {"shared experts": 64}),
        ("Qwen/Qwen3.5-27B-FP8", 8, False, {}),
    ],
)
def test_tensor_parallelism_cuts_blocks_that_it_does_not_divide(
    id_: str, ranks: int, whole_experts: bool, cut: dict[str, int]
) -> None:
    blocks = CATALOGUE[id_].shape.blocks
    assert blocks is not None
    assert dict(blocks.cut(ranks, whole_experts=whole_experts)) == cut


def test_blocks_of_compressed_tensors_are_read_and_attention_may_have_heads_that_are_no_blocks() -> None:
    weights = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
    quantization = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}
    config = {
        **full_entry("meta-llama/Llama-3.1-8B-Instruct")["config"],
        "head_dim": 64,
        "quantization_config": quantization,
    }
    blocks = from_config(config, "own").blocks
    assert blocks is not None
    assert dict(blocks.cut(8, whole_experts=False)) == {"keys and values": 64}
    kept = from_config({**config, "quantization_config": {**quantization, "ignore": ["re:.*self_attn"]}}, "own").blocks
    assert kept is not None
    assert not dict(kept.cut(8, whole_experts=False))
    assert from_config({**config, "quantization_config": {"quant_method": "fp8"}}, "own").blocks is None
