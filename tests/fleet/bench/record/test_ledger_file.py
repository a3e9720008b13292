"""An entry goes into a file that people write too: nothing else in it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.bench.errors import BenchmarkError
from fleet.bench.record import Entry, add, entry_of
from tests.fleet.bench.certificate.sound import sound

EMPTY = "# Own measurements.\nfigures: {}\n"
COMMENTED = """\
# Head.
figures:
  # The first one, on a bad day.
  first:
    title: a    # spaces kept
    shape: {flags: {a: 1}}
    note: >-
      folded
      text

# Tail, which stays.
"""
FOLLOWED = "figures:\n  first: {title: a}\n# about the other\nother:\n  x: 1\n"


def _entry(id_: str = "two-nodes") -> Entry:
    return entry_of(sound(), results="0" * 64, id_=id_, title="two nodes: 'quoted', # no comment")


def _added(tmp_path: Path, text: str, *ids: str) -> tuple[str, dict[str, Any]]:
    path = tmp_path / "measured.yaml"
    path.write_bytes(text.encode())
    for id_ in ids or ("two-nodes",):
        add(path, _entry(id_))
    assert list(tmp_path.iterdir()) == [path]
    changed = path.read_bytes().decode()
    return changed, yaml.safe_load(changed)


@pytest.mark.parametrize(
    "text",
    [
        EMPTY,
        "figures: {}",
        "figures:\n",
        "figures: null # none yet\n",
        "figures:",
        COMMENTED,
        FOLLOWED,
        FOLLOWED[:31],
        EMPTY.replace("\n", "\r\n"),
    ],
)
def test_whatever_was_there_stays_line_by_line(tmp_path: Path, text: str) -> None:
    changed, content = _added(tmp_path, text, "two-nodes", "more")
    before = yaml.safe_load(text)
    assert content["figures"]["two-nodes"] == dict(_entry().fields)
    assert list(content["figures"]) == [*(before["figures"] or {}), "two-nodes", "more"]
    assert {key: value for key, value in content.items() if key != "figures"} == {
        key: value for key, value in before.items() if key != "figures"
    }
    kept = [line.strip() for line in text.splitlines() if not line.startswith("figures:")]
    lines = [line.strip() for line in changed.splitlines()]
    assert [line for line in lines if line in kept and line] == [line for line in kept if line]
    assert ("\r\n" in text) == ("\r\n" in changed)
    assert changed.count("\r\n") in (0, changed.count("\n"))


def test_a_comment_behind_an_empty_section_stays(tmp_path: Path) -> None:
    changed, _ = _added(tmp_path, "figures: {} # none yet\n")
    assert changed.startswith("figures: # none yet\n  two-nodes:\n")


def test_an_id_that_is_there_is_refused_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "measured.yaml"
    path.write_text(COMMENTED)
    with pytest.raises(BenchmarkError, match=r"first\.title is 'a'.*--id"):
        add(path, _entry("first"))
    assert path.read_text() == COMMENTED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("figures: [1]\n", "`figures:`"),
        ("other: {}\n", "`figures:`"),
        ("", "`figures:`"),
        ("- 1\n", "`figures:`"),
        ("a: [\n", "not valid YAML"),
        pytest.param("[" * 3_000, "not valid YAML", id="deep"),
        ("a: 2020-99-99\n", "not valid YAML"),
        ("figures: {first: {title: a}}\n", "in braces"),
        ("figures:\n    first:\n      title: a\n", "`figures:`"),
    ],
)
def test_a_file_that_cannot_take_it_is_refused_and_stays(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "measured.yaml"
    path.write_text(text)
    with pytest.raises(BenchmarkError, match=words):
        add(path, _entry())
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_wrong_is_told_without_the_file_s_own_words(tmp_path: Path) -> None:
    path = tmp_path / "measured.yaml"
    path.write_text("figures:\n  first: a: hunter22\n")
    with pytest.raises(BenchmarkError, match="line 2") as refused:
        add(path, _entry())
    assert "hunter22" not in str(refused.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"none\.yaml.*measured\.yaml"):
        add(tmp_path / "none.yaml", _entry())
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BenchmarkError, match="is not text"):
        add(tmp_path / "binary.yaml", _entry())
