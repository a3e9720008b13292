"""Reasons for options: given once in the stack file, told in the preview, and never for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from settings.load import check
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

SPLIT = "--tensor-parallel-size"
TEXT = "users wait for single answers"


@pytest.mark.parametrize(("ranks", "reasons", "told"), [
    (2, {}, ("tp8-on-one-gpu-model", "error")),
    (2, {SPLIT: TEXT}, ("tp8-on-one-gpu-model", "note")),
    (2, {"--tensor_parallel_size": TEXT}, ("tp8-on-one-gpu-model", "note")),
    (1, {SPLIT: TEXT}, ("reason-without-option", "warning")),
    (1, {"--max-num-seqs": TEXT}, ("reason-without-option", "warning")),
])  # fmt: skip
def test_a_reason_allows_a_split_of_a_model_that_fits_one_gpu_and_nothing_else(
    ranks: int, reasons: dict[str, str], told: tuple[str, str]
) -> None:
    engine = {"tensorParallelSize": ranks, "dataParallelSize": 8 // ranks}
    server = {"replicas": 1, "profile": "serve-chat", "engine": engine, "reasons": reasons}
    ids = ("tp8-on-one-gpu-model", "reason-without-option")
    assert [(one.id, one.severity) for one in check(make_settings(server=server)) if one.id in ids] == [told]


@pytest.mark.parametrize(
    ("model", "version", "arguments"),
    [
        ("moonshotai/Kimi-K2-Instruct", "0.33.0", ("--trust-remote-code",)),
        ("MiniMaxAI/MiniMax-M2.5", "0.24.0", ("--trust-remote-code",)),
        ("MiniMaxAI/MiniMax-M2.5", "0.33.0", ()),
        ("deepseek-ai/DeepSeek-V3.1", "0.33.0", ()),
    ],
)
def test_the_catalog_has_the_switch_of_a_model_with_code_of_its_own(
    model: str, version: str, arguments: tuple[str, ...]
) -> None:
    image = {"tag": f"v{version}", "digest": f"sha256:{'0' * 64}"}
    server = {"replicas": 1, "profile": "serve-chat", "image": image}
    settings = make_settings(model={"id": model, "revision": "a" * 40}, server=server)
    assert settings.serving.engine.extra_args == arguments


def test_a_stack_file_can_switch_a_models_own_code_off() -> None:
    server = {"replicas": 1, "profile": "serve-chat", "engine": {"extraArgs": ["--no-trust-remote-code"]}}
    settings = make_settings(model={"id": "moonshotai/Kimi-K2-Instruct", "revision": "a" * 40}, server=server)
    assert settings.serving.engine.extra_args == ("--no-trust-remote-code",)


@each_row(
    "reasons",
    [{SPLIT: ""}, {SPLIT: "short"}, {SPLIT: " " * 20}, {SPLIT: "x" * 501}, {SPLIT: f"{TEXT}\n"}, {SPLIT: f"{TEXT}\n{TEXT}"},
     {"-q": TEXT}, {"--": TEXT}, {"--Trust": TEXT}, {"": TEXT}, {f"{SPLIT}\n": TEXT}, {SPLIT: 1}, {SPLIT: None}],
)  # fmt: skip
def test_a_reason_is_one_line_for_a_flag_or_a_variable(reasons: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as refused:
        check(make_settings(server={"replicas": 1, "profile": "serve-chat", "reasons": reasons}))
    assert {one.subject.startswith("vllm-fleet:server.reasons") for one in refused.value.problems} == {True}
