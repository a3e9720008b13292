"""What `fleet new` cuts out of a stack file and puts into it, and values in the form that the engine writes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.plan.copied import copy_stack
from fleet.plan.stack_text import dumped, styled, with_project, without
from settings.problems import SettingsError
from settings.strict_yaml import load
from tests.fleet.cli.command import SMALL_STACK
from tests.fleet.cli.command import project as a_project
from tests.support.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
FILES = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("Pulumi.*.yaml"))}
NAME = ("config", "vllm-fleet:cluster", "name")


def content(text: str) -> Any:
    return load(text.encode(), name="Pulumi.x.yaml", stack="x")


def paths(section: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in section.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from paths(value, (*above, key))


def dropped(section: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    first, *rest = path
    inner = dropped(section[first], tuple(rest)) if rest else {}
    others = {key: value for key, value in section.items() if key != first}
    return {key: inner if key == first else value for key, value in section.items()} if inner else others


@each_row("name", FILES)
def test_any_key_goes_and_every_other_line_stays(name: str) -> None:
    lines = FILES[name].splitlines()
    for path in paths(content(FILES[name])):
        cut = without(FILES[name], path)
        assert (content(cut) or {}) == dropped(content(FILES[name]), path), path
        left = cut.splitlines()
        same = len([*takewhile(lambda pair: pair[0] == pair[1], zip(lines, left, strict=False))])
        # Of a section on one line, that line is another.
        assert any(lines[len(lines) - len(rest) :] == rest for rest in (left[same:], left[same + 1 :])), path


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    name: x # own\n    # why\n    other: 1\n", "    # why\n    other: 1\n"),
        ("    other: 1 # one\n    name: |\n      a\n      b\n", "    other: 1 # one\n"),
        ("    name:\n      - a\n      - b: {c: 1}\n    other: 1", "    other: 1"),
        ("    name:\n    other: 1\n", "    other: 1\n"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_key_goes_with_its_own_lines(before: str, after: str, line_end: str) -> None:
    head = "config:\n  vllm-fleet:cluster:\n"
    before, after = ((head + text).replace("\n", line_end) for text in (before, after))
    assert without(before, NAME) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{name: x, other: 1} # one", "{other: 1} # one"),
        ("{other: 1, name: x}", "{other: 1}"),
        ("{a: 1, name: {b: [2]}, c: 3}", "{a: 1, c: 3}"),
        ("{other: 1}", "{other: 1}"),
    ],
)
def test_a_key_goes_out_of_a_section_on_one_line(before: str, after: str) -> None:
    head = "config:\n  vllm-fleet:cluster: "
    assert without(f"{head}{before}\n", NAME) == f"{head}{after}\n"


@pytest.mark.parametrize("section", [" {name: x}", "\n    name: x # own"])
def test_a_section_without_keys_goes(section: str) -> None:
    text = f"config:\n  gcp:project: p\n  vllm-fleet:cluster:{section}\n"
    assert without(text, NAME) == "config:\n  gcp:project: p\n"


@pytest.mark.parametrize(
    ("before", "project", "after"),
    [
        (
            "config:\n  gcp:project: old # theirs\n  a: 1\n",
            "my-project",
            "config:\n  gcp:project: my-project\n  a: 1\n",
        ),
        ("config:\r\n  gcp:project: old # it\r\n", "p1", "config:\r\n  gcp:project: p1\r\n"),
        ("config: {gcp:project: old, a: 1} # both\n", "p-x", "config: {gcp:project: p-x, a: 1} # both\n"),
        ("config:\n  a: 1\n", "p-x", "config:\n  gcp:project: p-x\n  a: 1\n"),
    ],
)
def test_the_project_takes_the_place_of_the_other_one(before: str, project: str, after: str) -> None:
    assert with_project(before, project) == after


def test_a_form_that_cannot_be_edited_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    folder = a_project(tmp_path, odd="config: {gcp:region: us-central1}\n")
    with pytest.raises(SettingsError) as refusal:
        copy_stack(folder, "odd", "other", project="my-project")
    assert [problem.id for problem in refusal.value.problems] == ["stack-file-not-edited"]
    assert not (folder / "Pulumi.other.yaml").exists()


@given(st.dictionaries(st.text(min_size=1), st.none() | st.booleans() | st.integers(-9, 9) | st.text(), max_size=4))
def test_any_text_comes_back_as_it_was_given(values: dict[str, object]) -> None:
    try:
        found = content(dumped(styled({"config": {"x": values}}, 2)))
    except SettingsError:
        return  # what no stack file may hold
    assert found == {"config": {"x": values}}


def test_a_copy_has_the_line_ends_of_its_source(tmp_path: Path) -> None:
    folder = a_project(tmp_path, odd="")
    text = f"# odd\n#\n{SMALL_STACK}".replace("\n", "\r\n")
    (folder / "Pulumi.odd.yaml").write_bytes(text.encode())
    copy_stack(folder, "odd", "other", project=None)
    copied = (folder / "Pulumi.other.yaml").read_bytes().decode()
    assert copied.count("\n") == copied.count("\r\n")
    assert "# odd" not in copied
