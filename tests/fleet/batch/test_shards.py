"""Order and shards of a file: every line once, common beginnings together, the same file the same batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.user_error import UserError
from fleet.batch import shards as module
from fleet.batch.order import Order
from fleet.batch.requests import CHAT, Terms, openai_request
from fleet.batch.scan import lines_of
from fleet.batch.shards import Shards
from tests.fleet.batch import made

FORM = partial(openai_request, terms=Terms(url=CHAT, model="m"))
LONG = "the law " * 200
"""1,600 bytes."""


def ordered(file: Path) -> Order:
    order = Order()
    with file.open("rb") as content:
        for line in lines_of(content):
            assert line.data is not None
            order.add(line, FORM(line.data))
    return order


def cut(file: Path) -> Shards:
    return Shards(file, FORM, ordered(file), url=CHAT, model="m")


def documents(shards: Shards) -> list[str]:
    contents = (shards.content(number) for number in range(len(shards.slices)))
    return [json.loads(line)["custom_id"] for content in contents for line in content.splitlines()]


def chats(folder: Path, texts: Sequence[str]) -> Path:
    return made.write(folder / "batch.jsonl", *(made.chat(str(n), text) for n, text in enumerate(texts)))


def test_documents_with_the_same_beginning_are_neighbours(tmp_path: Path) -> None:
    one, two = f"one {LONG}", f"two {LONG}"
    texts = [f"{one} a", "alone", f"{two} b", f"{one} c", "single", f"{two} d", f"{one} e"]
    assert documents(cut(chats(tmp_path, texts))) == ["0", "3", "6", "1", "2", "5", "4"]


def test_a_longer_common_beginning_is_a_group_in_the_group(tmp_path: Path) -> None:
    texts = [
        f"{LONG[:600]} a {LONG}",
        f"{LONG[:600]} b {LONG}",
        f"{LONG[:600]} a {LONG}",
        f"{LONG[:600]} b {LONG} more",
    ]
    assert documents(cut(chats(tmp_path, texts))) == ["0", "2", "1", "3"]


def test_a_file_without_common_beginnings_keeps_its_order(tmp_path: Path) -> None:
    assert documents(cut(chats(tmp_path, [f"{n} {LONG}" for n in range(50)]))) == [str(n) for n in range(50)]


def test_shards_are_bounded_and_a_longer_document_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DOCUMENTS", 3)
    monkeypatch.setattr(module, "MOST_BYTES", 4_000)
    found = cut(chats(tmp_path, ["a", "b", "c", "d", "e" * 9_000, "f" * 2_000, "g" * 2_000]))
    assert [one.documents for one in found.slices] == [3, 1, 1, 1, 1]
    assert found.documents == 7
    assert [len(found.content(number)) for number in range(5)] == [one.size for one in found.slices]


def test_a_small_batch_has_shards_for_many_servers_and_a_large_one_no_more_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = chats(tmp_path, [str(n) for n in range(200)])
    assert {one.documents for one in cut(file).slices} == {module.LEAST_DOCUMENTS}
    monkeypatch.setattr(module, "ENOUGH_SHARDS", 10)
    assert [one.documents for one in cut(file).slices] == [20] * 10


@given(texts=st.lists(st.sampled_from(["", "a", LONG, LONG + "b", "ü" * 300]), min_size=1, max_size=12))
def test_every_line_is_there_once_and_the_same_file_is_the_same_batch(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    file = chats(tmp_path_factory.mktemp("batch"), texts)
    found = cut(file)
    assert sorted(map(int, documents(found))) == list(range(len(texts)))
    assert cut(file).id == found.id
    assert Shards(file, FORM, ordered(file), url=CHAT, model="another").id != found.id


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    file = chats(tmp_path, ["a", "b"])
    found = cut(file)
    chats(tmp_path, ["a", "c"])
    with pytest.raises(UserError, match="changed while it was read"):
        found.content(0)
    file.write_bytes(b"{")
    with pytest.raises(UserError, match="changed while it was read"):
        found.content(0)


def test_half_of_a_surrogate_pair_outside_a_prompt_is_sent_as_it_is(tmp_path: Path) -> None:
    file = made.write(tmp_path / "batch.jsonl", made.chat("a", "x", stop="\ud83d"))
    (line,) = cut(file).content(0).splitlines()
    assert json.loads(line)["body"]["stop"] == "\ud83d"
