"""Reasons for options and variables: given once in the stack file, told in the preview, and never for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from settings.checks.declared_server import reasons
from settings.load import check
from settings.problems import SettingsError
from tests.support.rows import each_row
from tests.support.settings import make_settings

CODE = "--trust-remote-code"
TEXT = "the tokenizer is code of the repository"


def found(reasons: dict[str, str], *arguments: str, **sections: Any) -> dict[str, tuple[str, str]]:
    server = {"replicas": 1, "profile": "serve-chat", "reasons": reasons, "engine": {"extraArgs": list(arguments)}}
    problems = check(make_settings(server=server, **sections))
    return {one.id: (one.severity, one.subject) for one in problems if "option" in one.id or one.id == "server-opened"}


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
    assert tuple(reasons(settings)) == arguments


def test_a_stack_file_can_switch_a_models_own_code_off() -> None:
    server = {"replicas": 1, "profile": "serve-chat", "engine": {"extraArgs": ["--no-trust-remote-code"]}}
    settings = make_settings(model={"id": "moonshotai/Kimi-K2-Instruct", "revision": "a" * 40}, server=server)
    assert settings.serving.engine.extra_args == ("--no-trust-remote-code",)


@pytest.mark.parametrize("arguments", [(), (CODE,), ("--middleware=x.Y",), ("--long-prefill-token-threshold=4",)])
def test_a_reason_that_allows_nothing_is_a_finding(arguments: tuple[str, ...]) -> None:
    key = (arguments or (CODE,))[0].partition("=")[0]
    problems = found({key: TEXT}, *arguments)
    assert problems["reason-without-option"] == ("warning", f"vllm-fleet:server.reasons.{key}")
    assert ("server-opened" in problems) is ("--middleware=x.Y" in arguments)


@pytest.mark.parametrize(("ranks", "reasons", "told"), [
    (2, {}, ("tp8-on-one-gpu-model", "error")),
    (2, {"--tensor-parallel-size": "users wait for single answers"}, ("tp8-on-one-gpu-model", "note")),
    (2, {"--tensor_parallel_size": "users wait for single answers"}, ("tp8-on-one-gpu-model", "note")),
    (1, {"--tensor-parallel-size": "users wait for single answers"}, ("reason-without-option", "warning")),
])  # fmt: skip
def test_a_reason_allows_a_split_of_a_model_that_fits_one_gpu(
    ranks: int, reasons: dict[str, str], told: tuple[str, str]
) -> None:
    engine = {"tensorParallelSize": ranks, "dataParallelSize": 8 // ranks}
    server = {"replicas": 1, "profile": "serve-chat", "engine": engine, "reasons": reasons}
    ids = ("tp8-on-one-gpu-model", "reason-without-option")
    assert [(one.id, one.severity) for one in check(make_settings(server=server)) if one.id in ids] == [told]


@each_row(
    "reasons",
    [{CODE: ""}, {CODE: "short"}, {CODE: " " * 20}, {CODE: "x" * 501}, {CODE: f"{TEXT}\n"}, {CODE: f"{TEXT}\n{TEXT}"},
     {"-q": TEXT}, {"--": TEXT}, {"--Trust": TEXT}, {"": TEXT}, {f"{CODE}\n": TEXT}, {CODE: 1}, {CODE: None}],
)  # fmt: skip
def test_a_reason_is_one_line_for_a_flag_or_a_variable(reasons: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as refused:
        found(reasons, CODE)
    assert {one.subject.startswith("vllm-fleet:server.reasons") for one in refused.value.problems} == {True}
