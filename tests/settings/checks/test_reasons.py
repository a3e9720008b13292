"""The reason for a split of a model that fits one GPU, and the switch of a model with code of its own."""

from __future__ import annotations

from typing import Any

import pytest

from settings.load import check
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

CODE = "--trust-remote-code"
TEXT = "users wait for single answers"


@pytest.mark.parametrize(
    ("model", "version", "arguments"),
    [
        ("moonshotai/Kimi-K2-Instruct", "0.33.0", (CODE,)),
        ("moonshotai/Kimi-K2.5", "0.33.0", (CODE,)),
        ("MiniMaxAI/MiniMax-M2.5", "0.24.0", (CODE,)),
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


@pytest.mark.parametrize(
    ("ranks", "reason", "told"),
    [
        (2, {}, ("tp8-on-one-gpu-model", "error")),
        (2, {"tensorParallelReason": TEXT}, ("tp8-on-one-gpu-model", "note")),
        (1, {"tensorParallelReason": TEXT}, ("without-effect", "error")),
    ],
)
def test_a_reason_allows_a_split_of_a_model_that_fits_one_gpu(
    ranks: int, reason: dict[str, str], told: tuple[str, str]
) -> None:
    engine = {"tensorParallelSize": ranks, "dataParallelSize": 8 // ranks}
    server = {"replicas": 1, "profile": "serve-chat", "engine": engine, **reason}
    ids = ("tp8-on-one-gpu-model", "without-effect")
    assert [(one.id, one.severity) for one in check(make_settings(server=server)) if one.id in ids] == [told]


@each_row("reason", ["", "short", " " * 20, "x" * 501, f"{TEXT}\n", f"{TEXT}\n{TEXT}", 1])
def test_a_reason_is_one_line(reason: Any) -> None:
    with pytest.raises(SettingsError) as refused:
        make_settings(server={"tensorParallelReason": reason})
    assert {one.subject for one in refused.value.problems} == {"vllm-fleet:server.tensorParallelReason"}
