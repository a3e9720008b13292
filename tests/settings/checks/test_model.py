"""Tests of a stack's own model: by its id alone, with a config.json of its own, and each thing that can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from facts import ledger
from facts.models import CATALOGUE
from fleet.plan.modelled import modelled
from settings.load import check
from settings.problems import SettingsError
from settings.stack_file import read
from tests.support.rows import each_row
from tests.support.settings import make_config, make_settings

REVISION = "a" * 40
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}


HYBRID = ledger.section("models", "models")["Qwen/Qwen3.5-4B"]["config"]


@pytest.fixture
def own(tmp_path: Path) -> dict[str, Any]:
    """A model of the user's own, with its file."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    return {"id": "my/own-8b", "revision": REVISION, "sizeGb": 16.0, "config": str(path)}


def refusals(**sections: Any) -> set[tuple[str, str]]:
    """Id and path of everything that is refused."""
    try:
        found = check(make_settings(**sections))
    except SettingsError as error:
        found = tuple(error.problems)
    return {(one.id, one.subject.removeprefix("vllm-fleet:")) for one in found if one.severity == "error"}


def test_the_id_of_a_listed_model_with_a_revision_is_enough() -> None:
    listed = CATALOGUE["Qwen/Qwen3.5-27B-FP8"]
    serving = make_settings(model={"id": listed.id}).serving
    assert (serving.model.revision, serving.model.size_gb, serving.shape) == (
        listed.revision,
        listed.size_gb,
        listed.shape,
    )


def test_a_listed_model_without_a_revision_asks_for_one_and_nothing_else() -> None:
    assert refusals(model={"id": "Qwen/Qwen3.5-122B-A10B"}, weights={"sizeGib": 300}) == {
        ("model-without-revision", "model.revision")
    }
    pinned = {"id": "Qwen/Qwen3.5-122B-A10B", "revision": REVISION}
    server = {"profile": "serve-chat", "engine": {"tensorParallelSize": 4, "moeBackend": "triton"}}
    assert refusals(model=pinned, weights={"sizeGib": 300}, server=server) == set()


def test_a_model_of_ones_own_has_the_shape_of_its_file(own: dict[str, Any]) -> None:
    shape = make_settings(model=own).serving.shape
    assert shape is not None
    assert (shape.kind, shape.name, shape.context_tokens, shape.architecture.kv_heads) == ("gqa", "my/own-8b", 8192, 8)


def test_an_unknown_model_needs_revision_size_and_config() -> None:
    assert refusals(model={"id": "my/own-8b"}) == {
        ("model-without-revision", "model.revision"),
        ("model-without-size", "model.sizeGb"),
        ("model-without-config", "model.config"),
    }


OF_THE_4B = CATALOGUE["Qwen/Qwen3.5-4B"].revision
REVISION_OF_ANOTHER = ("revision-of-another-model", "model.revision")
SIZE_OF_ANOTHER = ("size-of-another-model", "model.sizeGb")
SMALL_VOLUME = ("weights-volume-too-small", "weights.sizeGib")


@each_row(
    ("model", "volume_gib", "refused"),
    [
        # Only `id` was changed: everything else is the smaller model's.
        (
            {"id": "Qwen/Qwen3.5-27B-FP8", "revision": OF_THE_4B, "sizeGb": 9.5},
            16,
            {REVISION_OF_ANOTHER, SIZE_OF_ANOTHER, SMALL_VOLUME},
        ),
        ({"id": "Qwen/Qwen3.5-27B-FP8", "revision": REVISION, "sizeGb": 29}, 40, set()),
        ({"id": "Qwen/Qwen3.5-27B-FP8", "revision": REVISION, "sizeGb": 27}, 40, set()),
        ({"id": "Qwen/Qwen3.5-27B-FP8", "revision": REVISION, "sizeGb": 60}, 80, set()),
        ({"id": "Qwen/Qwen3.5-4B", "sizeGb": 1}, 16, {SIZE_OF_ANOTHER}),
        ({"id": "Qwen/Qwen3.5-4B"}, 16, set()),
        ({"sizeGb": 3}, 16, {SIZE_OF_ANOTHER, SMALL_VOLUME}),
        ({"sizeGb": 15}, 20, set()),
        # A copy of a listed model can have its commits.
        ({"revision": OF_THE_4B}, 20, set()),
    ],
)
def test_revision_and_size_are_the_models(
    own: dict[str, Any], model: dict[str, Any], volume_gib: int, refused: set[tuple[str, str]]
) -> None:
    chosen = model if "id" in model else own | model
    weights = {"sizeGib": volume_gib, "throughputMibps": 1200}
    assert refusals(model=chosen, weights=weights, server={"profile": "serve-chat"}) == refused


@each_row(
    ("size_gb", "stated", "refused"),
    [(100.0, 200_000, set()),
     (300.0, 200_000, {("model-exceeds-gpus", "server.engine.tensorParallelSize")}),
     (100.0, 2**24, {("model-exceeds-gpus", "server.engine.tensorParallelSize")}),
     (100.0, 0, {("wrong-value", "model.kvBytesPerToken")})],
)  # fmt: skip
def test_an_unknown_architecture_is_served_by_its_stated_sizes(
    size_gb: float, stated: int, refused: set[tuple[str, str]]
) -> None:
    # A name like one of the catalogue's makes it no known model.
    model = {"id": "my/Qwen3-32B-of-another-kind", "revision": REVISION, "sizeGb": size_gb, "kvBytesPerToken": stated}
    server = {"profile": "serve-chat", "replicas": 1}
    sections = {"model": model, "server": server, "weights": {"sizeGib": 400}}
    assert refusals(**sections) == refused
    if not refused:
        settings = make_settings(**sections)
        assert [one.severity for one in check(settings) if one.id == "architecture-unknown"] == ["note"]
        assert modelled(settings) is None


def test_a_cache_is_not_stated_where_it_is_computed(own: dict[str, Any]) -> None:
    assert refusals(model={**own, "kvBytesPerToken": 131_072}) == {("cache-stated-twice", "model.kvBytesPerToken")}


def test_a_listed_model_in_another_case_is_one_finding() -> None:
    assert refusals(model={"id": "qwen/qwen3.5-27b-FP8"}) == {("unknown-model", "model.id")}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        ("[1]", "one JSON object"),
        ("{", "JSON file"),
        (json.dumps({**LLAMA, "model_type": "deepseek_v4"}), "model_type.*'deepseek_v4'; known: .*llama"),
        (json.dumps({**LLAMA, "layer_types": {"a": [1] * 100_000}}), "layer_types"),
    ],
)
def test_a_config_that_says_nothing_is_refused_with_the_reason(tmp_path: Path, content: str | None, told: str) -> None:
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError, match=f"vllm-fleet:model.config.*(?s:.*){told}") as refusal:
        make_settings(model={"id": "my/own-8b", "revision": REVISION, "sizeGb": 16.0, "config": str(path)})
    assert len(str(refusal.value)) < 2_000


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_test_checkpoint_of_a_few_layers_is_judged_like_any_model(own: dict[str, Any], layers: int) -> None:
    tiny = {**LLAMA, "num_hidden_layers": layers, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 4}
    Path(own["config"]).write_text(json.dumps(tiny | {"vocab_size": 1_024, "max_position_embeddings": 512}))
    sections = {"needs": {"contextTokens": 200}, "engine": {"maxModelLen": 256}}
    assert refusals(model=own, server=sections) == set()


def test_a_config_is_looked_for_beside_the_stack_file(tmp_path: Path, own: dict[str, Any]) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: vllm-fleet\nruntime: python\n")
    own["config"] = "config.json"
    config = {**make_config(), "vllm-fleet:model": own}
    (tmp_path / "Pulumi.x.yaml").write_text(json.dumps({"config": config}))
    assert json.loads(read(tmp_path, "x").config["vllm-fleet:model"])["config"] == str(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("model", "engine", "refused"),
    [
        ("Qwen/Qwen3-32B", {"maxModelLen": 40_961}, ("context-above-model", "server.engine.maxModelLen")),
        ("google/gemma-4-31B-it", {}, ("model-needs-newer-vllm", "server.engine.version")),
        ("meta-llama/Llama-3.1-8B-Instruct", {}, ("gated-model-without-token", "weights.tokenSecret")),
        ("Qwen/Qwen3-32B", {"toolCallParser": "gemma4"}, ("parser-of-another-release", "server.engine.toolCallParser")),
    ],
)
def test_what_model_engine_and_release_need_of_each_other(
    model: str, engine: dict[str, Any], refused: tuple[str, str]
) -> None:
    assert refused in refusals(model={"id": model, "revision": REVISION}, server={"engine": engine})


@each_row(
    ("model_type", "dtype", "expected"),
    [("qwen2", "fp8_e4m3", True), ("qwen2", "fp8", True), ("qwen2", "auto", False), ("llama", "fp8_e4m3", False),
     ("qwen2_moe", "fp8", True), ("qwen2_vl", "fp8", True), ("qwen2_5_vl", "fp8", True), ("qwen3", "fp8", False)],
)  # fmt: skip
def test_a_cache_in_fp8_of_a_model_with_a_key_bias_is_a_finding(
    own: dict[str, Any], model_type: str, dtype: str, expected: bool
) -> None:
    Path(own["config"]).write_text(json.dumps({**LLAMA, "model_type": model_type}))
    server = {"profile": "serve-chat", "replicas": 1, "engine": {"kvCacheDtype": dtype}}
    found = {(one.id, one.subject, one.severity) for one in check(make_settings(model=own, server=server))}
    wanted = ("fp8-cache-with-key-bias", "vllm-fleet:server.engine.kvCacheDtype", "warning")
    assert (wanted in found) is expected


@each_row(
    ("model", "engine", "refused"),
    [
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", {"version": "0.18.1"}, True),
        # Since 0.29 vLLM cuts the blocks of experts itself, and the other parts are whole.
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", {"version": "0.33.0"}, False),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", {"version": "0.18.1", "enableExpertParallel": True}, False),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", {"version": "0.18.1", "tensorParallelSize": 4}, False),
        ("Qwen/Qwen3.5-35B-A3B-FP8", {"version": "0.33.0"}, True),
        ("Qwen/Qwen3-32B", {"version": "0.33.0"}, False),
    ],
)
def test_tensor_parallelism_that_cuts_fp8_blocks_is_refused(model: str, engine: dict[str, Any], refused: bool) -> None:
    engine = {"tensorParallelSize": 8, "dataParallelSize": 8 // engine.get("tensorParallelSize", 8), **engine}
    found = refusals(
        model={"id": model, "revision": REVISION}, server={"replicas": 1, "profile": "serve-chat", "engine": engine}
    )
    assert (("fp8-blocks-cut", "server.engine.tensorParallelSize") in found) is refused
