"""A key that is there and empty is never a choice that nobody made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pulumi
import pytest
from pulumi.runtime.config import CONFIG

from facts.finding import Finding
from settings.load import KEYS, check, load, parse
from settings.problems import SettingsError
from settings.stack_file import read
from tests.settings.near_valid import SCHEMA
from tests.support.settings import make_config, make_settings

NULL_IS_A_CHOICE = {"capacity.flexStartSeconds"}
OWN_KEYS = {"labels", "prices"}


def refused(config: dict[str, str]) -> dict[str, str]:
    """Ids of the problems by path."""
    with pytest.raises(SettingsError) as error:
        parse("x", config)
    assert all(one.found is not None for one in error.value.problems if one.id == "empty-key")
    return {one.subject: one.id for one in error.value.problems}


def findings(**sections: Any) -> list[Finding]:
    return [one for one in check(make_settings(**sections)) if one.id == "empty-section"]


@pytest.mark.parametrize("text", ["", " ", "null", "~"])
@pytest.mark.parametrize("name", sorted(KEYS))
def test_no_top_level_key_may_be_empty(name: str, text: str) -> None:
    key = f"vllm-fleet:{name}"
    assert refused({**make_config(), key: text})[key] == "empty-key"


@pytest.mark.parametrize("key", ["gcp:project", "gcp:region"])
def test_googles_keys_may_not_be_empty_either(key: str) -> None:
    assert refused({**make_config(), key: ""})[key] == "empty-key"


def test_a_blank_key_of_a_stack_file_is_refused_like_the_engines_empty_text(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: vllm-fleet\nruntime: python\n")
    (tmp_path / "Pulumi.l4.yaml").write_text(
        "config:\n  gcp:project: fleet-tests\n  gcp:region: us-central1\n  vllm-fleet:zones: [us-central1-a, ~]\n"
        "  vllm-fleet:machine:\n  vllm-fleet:capacity: {mode: spot}\n  vllm-fleet:platform: {stack: }\n  hfToken:\n"
        "  vllm-fleet:model: {id: Qwen/Qwen3-8B, config: ''}\n"
    )
    config = dict(read(tmp_path, "l4").config)
    expected = {"machine", "hfToken", "platform.stack", "zones[1]", "model.config"}
    assert {key for key, id_ in refused(config).items() if id_ == "empty-key"} == {
        f"vllm-fleet:{one}" for one in expected
    }
    with (
        mock.patch.dict(CONFIG.get(), {**make_config(), "vllm-fleet:machine": config["vllm-fleet:machine"]}),
        mock.patch("pulumi.get_project", return_value="vllm-fleet"),
        pytest.raises(pulumi.RunError, match="vllm-fleet:machine"),
    ):
        load()


def _keys(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every key that the schema has, with a value that has null there."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _keys(one, path)
    for name, one in schema.get("properties", {}).items():
        inner = f"{path}.{name}".lstrip(".").removeprefix("vllm-fleet:")
        yield inner, {name: None}
        if not inner.endswith(".engine"):
            yield from ((key, {name: value}) for key, value in _keys(one, inner))
    if isinstance(items := schema.get("items"), dict):
        yield f"{path}[0]", [None]
        yield from ((key, [value]) for key, value in _keys(items, f"{path}[0]"))


def test_no_key_inside_a_section_may_be_empty_but_those_whose_null_is_a_choice() -> None:
    own = {
        key: one for key, one in SCHEMA["properties"]["config"]["properties"].items() if key.startswith("vllm-fleet:")
    }
    tried = {path: value for path, value in _keys({"properties": own}) if "." in path or "[" in path}
    tried = {path: value for path, value in tried.items() if path.split(".")[0].split("[")[0] not in OWN_KEYS}
    assert len(tried) > 150
    for path, value in tried.items():
        ((key, section),) = value.items()
        if key.partition(":")[2] in ("hfToken", "apiKey", "slackToken", "pagerdutyKey"):
            continue
        for empty in (None, ""):
            text = json.dumps(section).replace("null", json.dumps(empty))
            config = {**make_config(), key: text}
            try:
                parse("x", config)
            except SettingsError as error:
                told = {one.subject: one.id for one in error.problems}
            else:
                told = {}
            expected = None if empty is None and path in NULL_IS_A_CHOICE else "empty-key"
            assert told.get(f"vllm-fleet:{path}") == expected, (path, empty, told)


@pytest.mark.parametrize("inside", ["server", "rollout"])
def test_null_still_removes_a_setting_of_the_profile(inside: str) -> None:
    engine = {"engine": {"maxNumBatchedTokens": None}}
    settings = make_settings(**{inside: engine})
    serving = settings.serving if inside == "server" else settings.canary
    assert serving is not None
    assert serving.engine.max_num_batched_tokens is None
    assert refused(make_config(server={"engine": {"maxNumBatchedTokens": ""}})) == {
        "vllm-fleet:server.engine.maxNumBatchedTokens": "empty-key"
    }


def test_a_label_and_a_variable_may_have_an_empty_text_but_no_null() -> None:
    make_settings(labels={"team": ""}, server={"engine": {"extraEnv": {"VLLM_LOGGING_PREFIX": ""}}})
    assert refused(make_config(labels={"team": None})) == {"vllm-fleet:labels.team": "empty-key"}


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        ({"gateway": {}}, "gateway"),
        ({"labels": {}}, "labels"),
        ({"server": {"engine": {}}}, "server.engine"),
        ({"server": {"scaling": {"windows": []}}}, "server.scaling.windows"),
        ({"cluster": {"ipEndpoint": {}}}, "cluster.ipEndpoint"),
        ({"prices": {}}, "prices"),
    ],
)
def test_a_section_that_sets_nothing_is_a_finding(sections: dict[str, Any], path: str) -> None:
    assert [(one.subject, one.severity) for one in findings(**sections)] == [(f"vllm-fleet:{path}", "warning")]


def test_a_section_with_required_keys_may_not_be_empty() -> None:
    for name in ("budget", "spending", "registry", "model"):
        assert "missing-key" in refused({**make_config(), f"vllm-fleet:{name}": "{}"}).values()
