"""A context beyond the model's own, YaRN, and a 4-bit cache: what each model, GPU and release can, and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from facts.finding import Finding
from facts.models import CATALOGUE
from settings.load import check
from settings.problems import SettingsError
from tests.settings.checks.test_model import HYBRID
from tests.settings.checks.test_parsers import own
from tests.support.rows import each_row
from tests.support.settings import make_settings

REVISION = "a" * 40
QWEN35, QWEN3 = "Qwen/Qwen3.5-27B-FP8", "Qwen/Qwen3-32B"
MLA, HEADS_OF_64 = "deepseek-ai/DeepSeek-V3.1", "openai/gpt-oss-20b"
B200, H100 = "a4-highgpu-8g", "a3-highgpu-8g"
NVFP4 = {"kvCacheDtype": "nvfp4"}
OF_CONTEXT = {
    "context-above-model",
    "yarn-and-overrides",
    "yarn-on-other-model",
    "yarn-of-other-context",
    "yarn-without-long-context",
    "yarn-scales-short-prompts",
    "four-bit-cache-unreadable",
    "flags-vllm-refuses",
}


def problems(model: str, machine: str = B200, **engine: Any) -> dict[str, Finding]:
    server = {"profile": "serve-chat", "engine": engine}
    sections: dict[str, Any] = {"model": {"id": model, "revision": REVISION}, "weights": {"sizeGib": 900}}
    try:
        listed = check(make_settings(machine=machine, capacity={"mode": "spot"}, server=server, **sections))
    except SettingsError as error:
        listed = tuple(error.problems)
    return {problem.id: problem for problem in listed if problem.id in OF_CONTEXT}


def yarn(factor: float, context: int | None) -> dict[str, Any]:
    return {"yarn": {"factor": factor}, "maxModelLen": context}


def test_yarn_scales_qwens_own_context_only(tmp_path: Path) -> None:
    shorter = own(tmp_path, config={**HYBRID, "max_position_embeddings": 131_072})
    settings = make_settings(machine=B200, model=shorter, server={"engine": yarn(2.0, 200_000)})
    assert "yarn-of-other-context" in {one.id for one in check(settings)}


@each_row(
    ("model", "engine", "expected"),
    [
        (QWEN35, {"maxModelLen": 262_144}, {}),
        (QWEN35, {"maxModelLen": 262_145}, {"context-above-model": "error"}),
        (QWEN35, yarn(4.0, 1_010_000), {"yarn-scales-short-prompts": "note"}),
        (QWEN35, yarn(2.0, 524_288), {"yarn-scales-short-prompts": "note"}),
        (QWEN35, yarn(2.0, 524_289), {"context-above-model": "error", "yarn-scales-short-prompts": "note"}),
        (QWEN35, yarn(2.0, 262_144), {"yarn-without-long-context": "error"}),
        (QWEN35, yarn(2.0, None), {"yarn-without-long-context": "error"}),
        (QWEN3, yarn(4.0, 131_072), {"yarn-on-other-model": "error"}),
        (
            QWEN35,
            {**yarn(2.0, 524_288), "extraArgs": ('--hf-overrides={"rope_theta": 1}',)},
            {"yarn-and-overrides": "error", "yarn-scales-short-prompts": "note"},
        ),
    ],
)
def test_a_longer_context_needs_yarn_that_the_model_can(
    model: str, engine: dict[str, Any], expected: dict[str, str]
) -> None:
    assert {id_: problem.severity for id_, problem in problems(model, **engine).items()} == expected


def test_only_models_with_a_config_inside_their_config_are_extended() -> None:
    assert {id_ for id_, model in CATALOGUE.items() if model.shape.extends_by_yarn} == {
        id_ for id_ in CATALOGUE if any(family in id_ for family in ("Qwen3.5", "Qwen3.6", "Qwen3.8"))
    }


@each_row(
    ("model", "machine", "engine", "expected"),
    [
        (QWEN35, B200, NVFP4, {}),
        (QWEN35, H100, NVFP4, {}),
        (QWEN35, B200, {**NVFP4, "attentionBackend": "FLASH_ATTN"}, {"four-bit-cache-unreadable": "error"}),
        (QWEN35, B200, {**NVFP4, "version": "0.18.1"}, {"flags-vllm-refuses": "error"}),
        (MLA, B200, NVFP4, {"four-bit-cache-unreadable": "error"}),
        (HEADS_OF_64, B200, NVFP4, {}),
        (HEADS_OF_64, H100, NVFP4, {"four-bit-cache-unreadable": "error"}),
    ],
)
def test_a_4_bit_cache_needs_a_release_and_an_attention_that_read_it(
    model: str, machine: str, engine: dict[str, Any], expected: dict[str, str]
) -> None:
    assert {id_: problem.severity for id_, problem in problems(model, machine, **engine).items()} == expected


@each_row(
    ("needs", "refused"),
    [
        ({"requests": {"inputTokens": 7_692, "outputTokens": 500}}, set()),
        ({"requests": {"inputTokens": 7_693, "outputTokens": 500}}, {"vllm-fleet:server.needs.requests"}),
        (
            {"requests": {"inputTokens": 500, "outputTokens": 500, "longestInputTokens": 9_000}},
            {"vllm-fleet:server.needs.requests"},
        ),
        ({"workload": "article"}, set()),
    ],
)
def test_a_planned_request_fits_the_context(needs: dict[str, Any], refused: set[str]) -> None:
    server = {"profile": "serve-chat", "engine": {"maxModelLen": 8_192}, "needs": needs}
    told = [problem for problem in check(make_settings(server=server)) if problem.id == "requests-above-context"]
    assert {problem.subject for problem in told if problem.severity == "error"} == refused
