"""Configuration becomes typed settings, or one error that names every mistake."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pulumi
import pytest
from pulumi.runtime.config import CONFIG

from settings.load import accept, check, load, parse
from settings.problems import SettingsError
from tests.support.settings import make_config, make_settings


def refused(**sections: Any) -> dict[str, str]:
    with pytest.raises(SettingsError) as refusal:
        make_settings(**sections)
    return {problem.subject: problem.text() for problem in refusal.value.problems}


def test_a_key_that_no_text_can_hold_is_refused() -> None:
    assert refused(server={"profile": "record", "\ud800": 1}).keys() == {"vllm-fleet:server"}


def test_missing_keys_are_all_named_at_once() -> None:
    with pytest.raises(SettingsError) as refusal:
        parse("x", {})
    paths = {problem.subject for problem in refusal.value.problems}
    assert paths == {"gcp:project", "gcp:region", "vllm-fleet:zones", "vllm-fleet:capacity"}


def test_a_value_outside_its_range_shows_range_and_reason() -> None:
    text = refused(weights={"throughputMibps": 100})["vllm-fleet:weights.throughputMibps"]
    assert ">= 400" in text
    assert "MiB/s" in text


def test_the_placeholder_project_parses_but_is_not_accepted() -> None:
    config = make_config(project="your-project-id")
    assert parse("x", config).project == "your-project-id"
    with pytest.raises(SettingsError, match="placeholder"):
        accept("x", config)


def test_overrides_are_remembered_and_laid_over_the_profile() -> None:
    serving = make_settings(server={"engine": {"maxModelLen": 4096}, "profile": "record"}).serving
    assert serving.engine.max_model_len == 4096
    assert serving.engine.kv_cache_dtype == "fp8_e4m3"
    assert serving.overrides == {"maxModelLen"}


def test_secret_keys_only_say_that_they_are_there() -> None:
    config = {**make_config(), "vllm-fleet:hfToken": "plain-token-text"}
    settings = parse("x", config)
    assert settings.has_hf_token
    assert "plain-token-text" not in repr(settings)
    assert not parse("x", make_config()).has_hf_token


def test_a_section_that_the_engine_decrypted_is_refused_before_anything_is_said_about_it() -> None:
    keys = [key for key in make_config() if key.startswith("vllm-fleet:")]
    runtime = {**make_config(server={"engine": {"extraEnv": {"NOTE": "sesame"}}}), "vllm-fleet:hfToken": "sesame"}
    with (
        mock.patch.dict(CONFIG.get(), runtime),
        mock.patch("pulumi.runtime.config.is_config_secret", lambda key: key in {*keys[1:], "vllm-fleet:hfToken"}),
        mock.patch("pulumi.get_project", return_value="vllm-fleet"),
        pytest.raises(pulumi.RunError) as refusal,
    ):
        load()
    assert keys[1] in str(refusal.value)
    assert "sesame" not in str(refusal.value)


def test_the_program_checks_its_settings_once() -> None:
    with (
        mock.patch.dict(CONFIG.get(), make_config()),
        mock.patch("pulumi.get_project", return_value="vllm-fleet"),
        mock.patch("settings.load.check", wraps=check) as checked,
        mock.patch("pulumi.log.warn") as warned,
        mock.patch("pulumi.log.info") as told,
    ):
        settings, _ = load()
    assert checked.call_count == 1
    assert len(check(settings)) == warned.call_count + told.call_count > 0


def test_the_program_refuses_a_project_whose_keys_it_would_not_find() -> None:
    with (
        mock.patch("pulumi.get_project", return_value="fleet"),
        pytest.raises(pulumi.RunError, match="name: vllm-fleet"),
    ):
        load()


def test_a_key_that_an_environment_may_set_is_told_with_the_environment_and_its_stand_in() -> None:
    with pytest.raises(SettingsError) as refusal:
        parse("x", {"gcp:project": "p", "gcp:region": 7}, ("gcp/prod",))
    told = {problem.subject: problem for problem in refusal.value.problems}
    assert "gcp/prod" in told["vllm-fleet:zones"].why
    assert "Pulumi.x.esc-offline.yaml" in told["vllm-fleet:zones"].write
    assert "gcp/prod" not in told["gcp:region"].text()


def test_a_misspelt_namespace_is_told_with_the_key_that_was_meant() -> None:
    for space in ("vllm_fleet", "vllmfleet", "vllm-flet"):
        with pytest.raises(SettingsError) as refusal:
            parse("x", {**make_config(), f"{space}:server": "{}"})
        assert [(one.subject, one.write) for one in refusal.value.problems] == [
            (f"{space}:server", "vllm-fleet:server")
        ]
    others = {
        "pulumi:disable-default-providers": '["*"]',
        "datadog:apiKey": "x",
        "aws:region": "y",
        "gcp:zone": "z",
        "gcp:billingProject": "p",
    }
    assert parse("x", {**make_config(), **others}).stack == "x"


def test_a_misspelt_key_of_the_provider_is_told_with_the_one_that_was_meant() -> None:
    config = make_config()
    config["gcp:regio"] = config.pop("gcp:region")
    with pytest.raises(SettingsError) as refusal:
        parse("x", config)
    assert ("gcp:regio", "gcp:region") in [(one.subject, one.write) for one in refusal.value.problems]


@pytest.mark.parametrize(
    ("sections", "paths"),
    [
        (
            {"capacity": {"mode": "x"}, "server": {"profile": "nope", "replicas": -1, "engine": {"maxModelLen": -1}}},
            {"capacity.mode", "server.profile", "server.replicas", "server.engine.maxModelLen"},
        ),
        ({"network": {"x": 1}, "server": {"engine": {"seed": "a"}}}, {"network.x", "server.engine.seed"}),
        (
            {"model": {"id": 7}, "server": {"profile": "nope"}},
            {"server.profile", "model.id"},
        ),
        ({"zones": "a", "server": []}, {"zones", "server"}),
    ],
)
def test_every_problem_is_told_at_once_across_sections(sections: dict[str, Any], paths: set[str]) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse("x", make_config(**sections))
    assert {one.subject.removeprefix("vllm-fleet:") for one in refusal.value.problems} == paths
