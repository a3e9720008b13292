"""LoRA adapters of a stack's model: their slots, and what is refused or reported about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from facts.finding import Finding
from settings.derived.compile_cache import cache_key
from settings.load import check
from settings.stack import Settings
from tests.settings.checks.test_model import HYBRID, LLAMA, refusals
from tests.settings.checks.test_parsers import own
from tests.support.rows import each_row
from tests.support.settings import make_settings

BASE = "Qwen/Qwen3.5-27B-FP8"
EXPERTS = "Qwen/Qwen3.5-35B-A3B-FP8"
OTHER_EXPERTS = "Qwen/Qwen3-30B-A3B"
"""Without linear layers."""
NVFP4 = "nvidia/Qwen3.5-397B-A17B-NVFP4"
IMAGE = "projects/our-models/global/images/qwen"


def adapter(name: str = "support", **changes: Any) -> dict[str, Any]:
    return {"name": name, "id": "my-team/support-lora", "revision": "0" * 40, "rank": 16, **changes}


def made(*adapters: dict[str, Any], id_: str = BASE, server: dict[str, Any] | None = None, **sections: Any) -> Settings:
    model: dict[str, Any] = {"id": id_, "adapters": adapters or (adapter(),)}
    if id_ in (NVFP4, OTHER_EXPERTS):
        model |= {"revision": "1" * 40}
    return make_settings(model=model, server={"profile": "serve-chat", "replicas": 1, **(server or {})}, **sections)


def spread(**changes: Any) -> dict[str, Any]:
    """Engine settings that spread experts over GPUs."""
    return {"moeBackend": "triton", "enableExpertParallel": True, **changes}


def about_adapters(settings: Settings) -> dict[tuple[str, str], Finding]:
    return {
        (one.id, one.subject.removeprefix("vllm-fleet:")): one
        for one in check(settings)
        if one.id.startswith("adapter")
    }


def test_every_adapter_has_a_slot_for_the_largest_rank_unless_the_stack_says_otherwise() -> None:
    two = (adapter(), adapter("sales", rank=64))
    engine = made(*two).serving.engine
    assert engine.extra_args == ("--enable-lora", "--max-loras=2", "--max-lora-rank=64")
    fewer = made(*two, server={"engine": {"extraArgs": ["--max-loras=1"]}}).serving.engine
    assert fewer.extra_args == ("--max-loras=1", "--enable-lora", "--max-lora-rank=64")
    assert make_settings(model={"id": BASE}).serving.engine.extra_args == ()


@each_row(
    "settings, id_, path, severity",
    [
        (made(adapter(BASE.rpartition("/")[2]), server={"engine": {"servedModelName": "Qwen3.5-27B-FP8"}}),
         "adapter-name-taken", "model.adapters[0].name", "error"),
        (made(adapter(), adapter(rank=8)), "adapter-name-taken", "model.adapters[1].name", "error"),
        (made(server={"engine": {"extraArgs": ["--lora-modules=a=/weights/a"]}}),
         "adapters-named-twice", "server.engine.extraArgs", "error"),
        (made(server={"engine": {"extraArgs": ["--no-enable-lora"]}}),
         "adapters-named-twice", "server.engine.extraArgs", "error"),
        (made(adapter(rank=64), server={"engine": {"extraArgs": ["--max-lora-rank=32"]}}),
         "adapters-named-twice", "server.engine.extraArgs", "error"),
        (made(weights={"source": "huggingface"}), "adapters-without-volume", "weights.source", "error"),
        (made(weights={"source": "image", "image": IMAGE}), "adapters-of-the-image", "weights.image", "note"),
        (made(server={"engine": {"speculative": {"numSpeculativeTokens": 1}}}),
         "adapters-with-drafts", "server.engine.speculative", "note"),
        (made(id_=NVFP4, server={"engine": {"version": "0.18.1"}}),
         "adapters-on-old-release", "server.engine.version", "error"),
        (made(id_=NVFP4, server={"engine": {"version": "0.33.0", "moeBackend": "flashinfer_cutlass"}}),
         "adapters-on-expert-kernels", "server.engine.moeBackend", "error"),
        (made(id_=EXPERTS, server={"engine": {"version": "0.33.0", "moeBackend": "deep_gemm"}}),
         "adapters-on-expert-kernels", "server.engine.moeBackend", "error"),
        (made(id_=OTHER_EXPERTS, server={"engine": {"version": "0.18.1", "enableExpertParallel": True}}),
         "adapters-on-old-release", "server.engine.version", "error"),
        (made(id_=EXPERTS, server={"engine": spread(tensorParallelSize=2, dataParallelSize=4)}),
         "adapters-on-spread-experts", "server.engine.enableExpertParallel", "error"),
        (made(id_=EXPERTS, server={"engine": spread(extraArgs=["--all2all-backend=deepep_low_latency"])}),
         "adapters-on-spread-experts", "server.engine.enableExpertParallel", "error"),
        (made(id_=EXPERTS, server={"engine": spread(extraArgs=["--fully-sharded-loras"])}),
         "adapters-on-spread-experts", "server.engine.enableExpertParallel", "error"),
        (make_settings(model={"id": EXPERTS}, server={"engine": spread(version="0.18.1", extraArgs=["--enable-lora"])}),
         "adapters-on-old-release", "server.engine.version", "error"),
        (made(id_=OTHER_EXPERTS, server={"engine": {"version": "0.33.0", "moeBackend": "triton"}}),
         "adapters-on-bf16-experts", "machine", "error"),
        (made(server={"engine": {"version": "0.18.1"}}),
         "adapters-on-old-release", "server.engine.version", "error"),
        (make_settings(model={"id": EXPERTS}, server={"engine": {"extraArgs": ["--enable-lora"], "version": "0.18.0"}}),
         "adapters-on-old-release", "server.engine.version", "error"),
    ],
)  # fmt: skip
def test_what_cannot_serve_its_adapters_is_told_by_its_key(
    settings: Settings, id_: str, path: str, severity: str
) -> None:
    assert about_adapters(settings)[id_, path].severity == severity


@each_row(
    "settings",
    [
        made(),
        made(adapter(), adapter("sales", id="my-team/sales-lora")),
        made(server={"engine": {"speculative": {"method": "ngram", "numSpeculativeTokens": 1}}}),
        made(id_=NVFP4, server={"engine": {"version": "0.33.0", "moeBackend": "marlin"}}),
        made(id_=EXPERTS, server={"engine": spread()}),
        made(id_=EXPERTS, server={"engine": spread(tensorParallelSize=8, dataParallelSize=1)}),
        made(id_=EXPERTS, server={"engine": spread(extraArgs=["--all2all-backend=naive"])}),
        made(id_=OTHER_EXPERTS, server={"engine": {"version": "0.18.1", "moeBackend": "triton"}}),
        made(id_=OTHER_EXPERTS, machine="a3-highgpu-1g", server={"engine": spread(version="0.18.1")}),
        made(id_=OTHER_EXPERTS, machine="a3-highgpu-1g", server={"engine": {"version": "0.33.0"}}),
        make_settings(model={"id": BASE}, server={"engine": {"version": "0.18.1", "extraArgs": ["--no-enable-lora"]}}),
        make_settings(model={"id": BASE}, weights={"source": "huggingface"}, server={"replicas": 1}),
    ],
)
def test_nothing_is_said_about_adapters_that_can_be_served(settings: Settings) -> None:
    drafts = {("adapters-with-drafts", "server.engine.speculative")}
    assert about_adapters(settings).keys() <= drafts


@each_row(
    "changes, key",
    [
        ({"rank": 24}, "rank"),
        ({"rank": 0}, "rank"),
        ({"rank": 1_024}, "rank"),
        ({"revision": "main"}, "revision"),
        ({"id": "support-lora"}, "id"),
        ({"name": "a=b"}, "name"),
        ({"name": "../model"}, "name"),
        ({"name": "team/support"}, "name"),
        ({"name": ""}, "name"),
    ],
)
def test_a_wrong_value_is_refused_by_its_own_key(changes: dict[str, Any], key: str) -> None:
    refused = refusals(model={"id": BASE, "adapters": [adapter(), adapter("sales") | changes]})
    assert {path for _, path in refused} == {f"model.adapters[1].{key}"}


def test_a_model_of_ones_own_has_linear_layers_by_its_config(tmp_path: Path) -> None:
    for config, severity in ((HYBRID, "error"), (LLAMA, None), ({**HYBRID, "model_type": "qwen3_next"}, None)):
        model = own(tmp_path, config=config) | {"adapters": [adapter()]}
        told = about_adapters(make_settings(model=model, server={"engine": {"version": "0.18.1"}}))
        finding = told.get(("adapters-on-old-release", "server.engine.version"))
        assert (finding and finding.severity) == severity


def test_slots_that_leave_no_room_for_a_request_are_refused_like_weights_that_do_not_fit() -> None:
    fits, full = (
        {(one.id, one.severity) for one in check(made(adapter(rank=rank), id_=EXPERTS, machine="a3-highgpu-1g"))}
        for rank in (16, 512)
    )
    assert ("model-exceeds-gpus", "error") not in fits
    assert ("model-exceeds-gpus", "error") in full


def test_a_canary_of_another_revision_has_the_adapters_and_one_of_another_model_has_none() -> None:
    for model, names in (({"revision": "f" * 40}, ["support"]), ({"id": "Qwen/Qwen3.5-9B", "revision": "f" * 40}, [])):
        settings = made(rollout={"model": model})
        assert settings.canary is not None
        assert [one.name for one in settings.canary.model.adapters] == names
        assert ("--enable-lora" in settings.canary.engine.extra_args) is bool(names)


def test_slots_are_part_of_the_compile_caches_key() -> None:
    server = {"compileCache": {"enabled": True}}
    with_slots, without = (
        make_settings(model=model, server=server) for model in ({"id": BASE, "adapters": [adapter()]}, {"id": BASE})
    )
    assert cache_key(with_slots) != cache_key(without)
