"""A stack file after an edit says what was meant, and every other byte of it is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.plan.stack_text import StackText
from settings.problems import SettingsError
from settings.strict_yaml import load
from tests.support.engine_form import rewritten
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
FILES = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("Pulumi.*.yaml"))}
SERVER = ("config", "vllm-fleet:server")
CANARY = {"canary": {"engine": {"version": "0.33.0", "seed": None}, "image": {"tag": "v0.33.0"}}}


def edited(text: str) -> StackText:
    return StackText(text, name="Pulumi.x.yaml", stack="x")


@each_row("name", FILES)
def test_a_section_that_comes_and_goes_leaves_no_trace(name: str) -> None:
    file = edited(FILES[name])
    file.add_section("vllm-fleet:rollout", CANARY, comment="what this is", after="vllm-fleet:server")
    assert load(file.text.encode(), name=name, stack="x")["config"]["vllm-fleet:rollout"] == CANARY
    assert [line for line in FILES[name].splitlines() if line not in file.text.splitlines()] == []
    for again in (file, edited(file.text)):
        again.remove_section("vllm-fleet:rollout", comment="what this is")
        assert again.text == FILES[name]


@pytest.mark.parametrize("separator", ["", "\n", "  #\n"])
def test_a_section_goes_with_what_the_engine_left_of_its_separator(separator: str) -> None:
    file = edited(f"config:\n  a: 1\n{separator}  # what this is\n  vllm-fleet:rollout:\n    canary: {{}}\n")
    file.remove_section("vllm-fleet:rollout", comment="what this is")
    assert file.text == "config:\n  a: 1\n"


@each_row("name", FILES)
def test_an_edited_file_survives_the_engine(name: str) -> None:
    file = edited(FILES[name])
    file.add_section("vllm-fleet:rollout", CANARY, comment="what this is", after="vllm-fleet:server")
    file.set((*SERVER, "engine", "seed"), 1)
    file.set(("config", "vllm-fleet:rollout", "promoted"), 'yes: 9.50, "no" — 0.5 % # slower')
    assert rewritten(file.text) == []


@each_row("name", FILES)
def test_a_key_that_comes_and_goes_leaves_no_trace(name: str) -> None:
    file = edited(FILES[name])
    file.set((*SERVER, "engine", "seed"), 1)
    file.set((*SERVER, "engine", "version"), "0.33.0")
    assert [line for line in FILES[name].splitlines() if line not in file.text.splitlines()] == []
    file.remove((*SERVER, "engine", "version"))
    file.remove((*SERVER, "engine", "seed"))
    assert file.text == FILES[name]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "config:\n  vllm-fleet:server: {replicas: 1} # one\n",
            "  vllm-fleet:server: {replicas: 1, engine: {seed: 1}} # one",
        ),
        ("config:\n  vllm-fleet:server:\n    engine: {} # none\n", "    engine: {seed: 1} # none"),
        ("config:\n  vllm-fleet:server:\n    engine: {seed: 7} # seven\n", "    engine: {seed: 1} # seven"),
        ("config:\n  vllm-fleet:server:\n    engine:\n      maxModelLen: 9 # why\n", "      seed: 1"),
        ("config:\n  gcp:region: europe-west4 # where", "  vllm-fleet:server: {engine: {seed: 1}}"),
    ],
)
def test_a_key_is_written_in_the_form_that_its_section_has(before: str, after: str) -> None:
    file = edited(before)
    file.set((*SERVER, "engine", "seed"), 1)
    assert after in file.text.splitlines()
    assert file.get((*SERVER, "engine", "seed")) == 1
    assert all(
        comment in file.text for comment in ("# one", "# none", "# seven", "# why", "# where") if comment in before
    )


def test_a_comment_stays_above_its_key_when_the_first_key_goes() -> None:
    file = edited("config:\n  vllm-fleet:cluster:\n    name: x # own\n    # why\n    deletionProtection: true\n")
    file.remove(("config", "vllm-fleet:cluster", "name"))
    assert file.text == "config:\n  vllm-fleet:cluster:\n    # why\n    deletionProtection: true\n"


def test_a_form_that_is_not_understood_is_refused() -> None:
    file = edited("config:\n  vllm-fleet:model: &same {id: a/b}\n  vllm-fleet:other: *same\n")
    with pytest.raises(SettingsError) as refusal:
        file.set(("config", "vllm-fleet:other", "id"), "c/d")
    assert [problem.id for problem in refusal.value.problems] == ["stack-file-not-edited"]


@given(st.dictionaries(st.text(min_size=1), st.none() | st.booleans() | st.integers(-9, 9) | st.text(), max_size=4))
def test_any_text_comes_back_as_it_was_given(values: dict[str, object]) -> None:
    file = edited("config: {}\n")
    try:
        file.set(("config", "x"), values)
    except SettingsError:
        return  # what no stack file may hold
    assert file.get(("config", "x")) == values


@pytest.mark.parametrize(
    "text", [FILES["Pulumi.cud.yaml"].replace("\n", "\r\n"), FILES["Pulumi.dev.yaml"].removesuffix("\n")]
)
def test_line_ends_stay_as_they_are(text: str) -> None:
    file = edited(text)
    file.add_section("vllm-fleet:rollout", CANARY, comment="what this is", after="vllm-fleet:server")
    assert file.text.count("\n") - file.text.count("\r\n") in (0, file.text.count("\n"))
    assert file.text.endswith("\n") == text.endswith("\n")
    file.remove_section("vllm-fleet:rollout", comment="what this is")
    assert file.text == text


def test_line_ends_of_two_kinds_are_refused() -> None:
    with pytest.raises(SettingsError):
        edited("config:\r\n  a: 1\n")


@pytest.mark.parametrize(
    ("behind", "before"),
    [
        ("    # of it\n\n    # too\n", "\n  # of the next\n  next: 1\n"),
        ("    # of it\n", "  # of the next\n  next: 1\n"),
        ("    # of it\n  # at the end\n", ""),
        ("", "\n  next: 1\n"),
        ("", "  #\n  # of the next\n  next: 1\n"),
    ],
)
def test_comments_stay_with_their_section(behind: str, before: str) -> None:
    file = edited(f"config:\n  vllm-fleet:server:\n    replicas: 1\n{behind}{before}")
    file.add_section("vllm-fleet:rollout", CANARY, comment="what this is", after="vllm-fleet:server")
    head, _, rest = file.text.partition("  #\n  # what this is\n")
    assert head == f"config:\n  vllm-fleet:server:\n    replicas: 1\n{behind}"
    assert rest.endswith(before)
