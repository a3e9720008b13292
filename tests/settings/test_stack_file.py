"""Stack files are read as the engine reads them, and what the two would read differently is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from settings.problems import SettingsError
from settings.stack_file import read, stack_names


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: vllm-fleet\nruntime: python\n")
    return tmp_path


def write(root: Path, text: str) -> Path:
    path = root / "Pulumi.x.yaml"
    path.write_text(text)
    return path


def problems(root: Path) -> list[str]:
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    return [problem.id for problem in refusal.value.problems]


def test_values_become_strings_and_sections_become_json(root: Path) -> None:
    write(
        root,
        "config:\n  gcp:project: p\n  vllm-fleet:server: {replicas: 12, profile: record}\n  on_top: true\n  n: 1.5\n",
    )
    config = read(root, "x").config
    assert config["gcp:project"] == "p"
    assert json.loads(config["vllm-fleet:server"]) == {"replicas": 12, "profile": "record"}
    assert config["vllm-fleet:on_top"] == "true"
    assert config["vllm-fleet:n"] == "1.5"


def test_an_encrypted_top_level_key_is_a_secret_with_a_stand_in(root: Path) -> None:
    write(root, "encryptionsalt: v1:abc\nconfig:\n  vllm-fleet:hfToken:\n    secure: v1:ciphertext\n")
    file = read(root, "x")
    assert file.secret_keys == {"vllm-fleet:hfToken"}
    assert file.config["vllm-fleet:hfToken"] == "[secret]"


def test_a_secret_inside_a_section_is_refused_with_its_path(root: Path) -> None:
    write(root, "config:\n  vllm-fleet:server:\n    env:\n      - secure: v1:ciphertext\n")
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    assert refusal.value.problems[0].path == "vllm-fleet:server.env[0]"
    assert "ciphertext" not in str(refusal.value)


def test_a_secret_key_in_plain_text_is_refused_without_repeating_it(root: Path) -> None:
    write(root, "config:\n  vllm-fleet:hfToken: hf_plainplainplain\n")
    with pytest.raises(SettingsError) as refusal:
        read(root, "x")
    assert refusal.value.problems[0].id == "secret-in-plain-text"
    assert refusal.value.problems[0].write == "pulumi config set --secret vllm-fleet:hfToken"
    assert "hf_plain" not in str(refusal.value)


@pytest.mark.parametrize("scalar", ["yes", "off", "0755", "1_000", "12:30", "2026-11-21", "0x1F"])
def test_words_that_yaml_readers_disagree_about_are_refused(root: Path, scalar: str) -> None:
    write(root, f"config:\n  vllm-fleet:labels:\n    team: {scalar}\n")
    assert problems(root) == ["ambiguous-yaml"]


@pytest.mark.parametrize("scalar", ['"yes"', "'0755'", '"2026-11-21"'])
def test_the_same_words_in_quotes_are_text(root: Path, scalar: str) -> None:
    write(root, f"config:\n  vllm-fleet:labels:\n    team: {scalar}\n")
    assert json.loads(read(root, "x").config["vllm-fleet:labels"])["team"] == scalar.strip("\"'")


@pytest.mark.parametrize("text", ["config: [1, 2", "config: 7", "- a\n- b\n", "config:\n\t- x"])
def test_a_broken_file_is_one_clear_error(root: Path, text: str) -> None:
    write(root, text)
    assert problems(root) == ["broken-stack-file"]


def test_an_unknown_stack_names_those_there_are(root: Path) -> None:
    write(root, "config: {}\n")
    with pytest.raises(SettingsError) as refusal:
        read(root, "nope")
    assert refusal.value.problems[0].allowed.endswith("this folder: x")


def test_an_empty_file_has_no_configuration(root: Path) -> None:
    write(root, "")
    assert read(root, "x").config == {}


def test_environments_are_named_because_they_are_not_opened(root: Path) -> None:
    write(root, "environment: [gcp/prod]\nconfig: {}\n")
    assert read(root, "x").environments == ("gcp/prod",)


def test_stacks_are_listed_by_their_files(root: Path) -> None:
    write(root, "config: {}\n")
    (root / "Pulumi.a.yaml").write_text("")
    assert stack_names(root) == ("a", "x")
