"""A stack file after an edit says what was meant, and every other byte of it is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.plan.stack_text import StackText
from settings.problems import SettingsError
from tests.support.engine_form import rewritten
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
FILES = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("Pulumi.*.yaml"))}
SERVER = ("config", "vllm-fleet:server")


def edited(text: str) -> StackText:
    return StackText(text, name="Pulumi.x.yaml", stack="x")


@each_row("name", FILES)
def test_an_edited_file_survives_the_engine(name: str) -> None:
    file = edited(FILES[name])
    file.set((*SERVER, "engine", "seed"), 1)
    file.set(("config", "vllm-fleet:rollout"), {"engine": {"version": "0.33.0", "seed": None}})
    file.set(("config", "vllm-fleet:labels", "why"), 'yes: 9.50, "no" — 0.5 % # slower')
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
    file.set((*SERVER, "engine", "seed"), 1)
    assert file.text.count("\n") - file.text.count("\r\n") in (0, file.text.count("\n"))
    assert file.text.endswith("\n") == text.endswith("\n")
    file.remove((*SERVER, "engine", "seed"))
    assert file.text == text


def test_line_ends_of_two_kinds_are_refused() -> None:
    with pytest.raises(SettingsError):
        edited("config:\r\n  a: 1\n")
