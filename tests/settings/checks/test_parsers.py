"""Parsers of a stack's own model: what is named, else what the catalog says, never what the id resembles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from facts.finding import Finding
from settings.load import check
from settings.problems import SettingsError
from settings.stack import Settings
from tests.settings.checks.test_model import HYBRID, LLAMA, REVISION
from tests.support.rows import each_row
from tests.support.settings import make_settings

CHAT = {"profile": "serve-chat"}
NONE = (None, None)


def own(folder: Path, id_: str = "acme/support-8b", config: dict[str, Any] = LLAMA, **keys: Any) -> dict[str, Any]:
    """A model that the catalog does not list."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return {"id": id_, "revision": REVISION, "sizeGb": 16.0, "config": str(path), **keys}


def parsers_of(settings: Settings) -> tuple[str | None, str | None]:
    """Parsers of reasoning and of tool calls."""
    engine = settings.serving.engine
    return engine.reasoning_parser, engine.tool_call_parser


def about_parsers(settings: Settings) -> dict[str, Finding]:
    """Findings about parsers, by the path of the key."""
    ids = ("model-without-parser", "parser-of-another-release", "parser-of-another-model")
    return {one.subject.removeprefix("vllm-fleet:"): one for one in check(settings) if one.id in ids}


@each_row("config", [LLAMA, HYBRID])
@each_row("profile", ["serve-chat", "serve-batch", "record"])
def test_the_id_of_an_unlisted_model_changes_nothing_but_its_name(
    tmp_path: Path, profile: str, config: dict[str, Any]
) -> None:
    ids = ("acme/support-8b", "acme/llama-3.1-8b-support", "acme/qwen3-8b-support", "acme/qwen3.5-4b-support")
    made = [make_settings(model=own(tmp_path, id_, config), server={"profile": profile}) for id_ in ids]
    assert all(settings.serving.engine == made[0].serving.engine for settings in made)
    assert {parsers_of(settings) for settings in made} == {NONE}
    assert (
        len({tuple(sorted((one.id, one.subject, one.severity) for one in check(settings))) for settings in made}) == 1
    )


def test_a_copy_of_a_listed_model_needs_its_config_like_any_other() -> None:
    with pytest.raises(SettingsError) as refusal:
        make_settings(model={"id": "acme/Qwen3.5-27B-FP8-support", "revision": REVISION, "sizeGb": 29.0})
    assert {one.id for one in refusal.value.problems} == {"model-without-config"}


def test_what_the_profile_would_set_is_a_note_for_each_parser(tmp_path: Path) -> None:
    told = about_parsers(make_settings(model=own(tmp_path), server=CHAT))
    assert {(path, one.id, one.severity) for path, one in told.items()} == {
        ("server.engine.reasoningParser", "model-without-parser", "note"),
        ("server.engine.toolCallParser", "model-without-parser", "note"),
    }
    assert not about_parsers(make_settings(model=own(tmp_path)))


def test_a_named_parser_is_rendered_with_any_profile(tmp_path: Path) -> None:
    named = {"reasoningParser": "deepseek_r1", "toolCallParser": "llama3_json"}
    for profile in ("serve-chat", "record"):
        settings = make_settings(model=own(tmp_path), server={"profile": profile, "engine": named})
        assert parsers_of(settings) == ("deepseek_r1", "llama3_json")
        assert not about_parsers(settings)


def test_none_can_be_said(tmp_path: Path) -> None:
    without = {"engine": {"reasoningParser": None, "toolCallParser": None}}
    settings = make_settings(model=own(tmp_path), server={**CHAT, **without})
    assert parsers_of(settings) == NONE
    assert not about_parsers(settings)


@each_row(
    ("id_", "named", "expected"),
    [
        ("Qwen/Qwen3.5-9B", {}, ("qwen3", "qwen3_coder")),
        ("Qwen/Qwen3-32B", {}, ("qwen3", "hermes")),
        ("google/gemma-3-27b-it", {}, NONE),
        ("openai/gpt-oss-120b", {}, ("openai_gptoss", "openai")),
        ("meta-llama/Llama-3.1-8B-Instruct", {}, (None, "llama3_json")),
        ("Qwen/Qwen3-32B", {"toolCallParser": "qwen3_xml"}, ("qwen3", "qwen3_xml")),
    ],
)
def test_a_listed_model_has_the_catalogs(
    id_: str, named: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    settings = make_settings(model={"id": id_, "revision": REVISION}, server={**CHAT, "engine": named})
    assert parsers_of(settings) == expected
    assert "model-without-parser" not in {one.id for one in check(settings)}


def test_a_parser_is_one_of_this_release(tmp_path: Path) -> None:
    later = make_settings(model=own(tmp_path), server={**CHAT, "engine": {"toolCallParser": "minimax"}})
    assert about_parsers(later)["server.engine.toolCallParser"].id == "parser-of-another-release"
    with pytest.raises(SettingsError) as refusal:
        make_settings(model=own(tmp_path), server={"engine": {"toolCallParser": "qwen"}})
    assert {one.subject for one in refusal.value.problems} == {"vllm-fleet:server.engine.toolCallParser"}


def test_a_canary_of_another_revision_keeps_the_models_parsers(tmp_path: Path) -> None:
    server = {**CHAT, "engine": {"reasoningParser": "deepseek_r1"}}
    canary = {"model": {"revision": "b" * 40}}
    serving = make_settings(model=own(tmp_path), server=server, rollout=canary).canary
    assert serving is not None
    assert (serving.engine.reasoning_parser, serving.model.revision) == ("deepseek_r1", "b" * 40)


@each_row(
    ("model", "engine", "told"),
    [
        ("Qwen/Qwen3.5-4B", {"reasoningParser": "mistral"}, {"reasoningParser": "qwen3"}),
        ("Qwen/Qwen3.5-4B", {"toolCallParser": "hermes"}, {"toolCallParser": "qwen3_coder"}),
        ("Qwen/Qwen3.5-4B", {"toolCallParser": "qwen3_xml"}, {}),
        ("Qwen/Qwen3.5-4B", {"toolCallParser": None, "reasoningParser": None}, {}),
        ("Qwen/Qwen3.5-4B", {}, {}),
        # This format is for flags-of-another-architecture to judge.
        ("openai/gpt-oss-20b", {"reasoningParser": "qwen3"}, {}),
        ("MiniMaxAI/MiniMax-M2.5", {"reasoningParser": "minimax_m2_append_think"}, {}),
    ],
)
def test_a_parser_of_another_model_is_a_warning_with_the_catalogs(
    model: str, engine: dict[str, Any], told: dict[str, str]
) -> None:
    settings = make_settings(model={"id": model, "revision": REVISION}, server={**CHAT, "engine": engine})
    warned = about_parsers(settings)
    assert {path.removeprefix("server.engine."): one.allowed.split(",")[0] for path, one in warned.items()} == told
    assert {one.severity for one in warned.values()} <= {"warning"}
