"""Shards of a file: every line once, the same file the same batch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.user_error import UserError
from fleet.batch import shards as module
from fleet.batch.requests import CHAT, Terms, openai_request
from fleet.batch.scan import lines_of
from fleet.batch.shards import Places, Shards
from tests.fleet.batch import made
from tests.fleet.cli.command import ROOT

FORM = partial(openai_request, terms=Terms(url=CHAT, models=("m",)))
LONG = "the law " * 200
"""1,600 bytes."""


def placed(file: Path) -> Places:
    places = Places()
    with file.open("rb") as content:
        for line in lines_of(content):
            assert line.data is not None
            places.add(line, FORM(line.data))
    return places


def cut(file: Path) -> Shards:
    return Shards(file, FORM, placed(file), url=CHAT, model="m")


def documents(shards: Shards) -> list[str]:
    contents = (shards.content(number) for number in range(len(shards.slices)))
    return [json.loads(line)["custom_id"] for content in contents for line in content.splitlines()]


def chats(folder: Path, texts: Sequence[str]) -> Path:
    return made.write(folder / "batch.jsonl", *(made.chat(str(n), text) for n, text in enumerate(texts)))


def test_shards_are_bounded_and_a_longer_document_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "USUAL_DOCUMENTS", 3)
    monkeypatch.setattr(module, "MOST_BYTES", 4_000)
    found = cut(chats(tmp_path, ["a", "b", "c", "d", "e" * 9_000, "f" * 2_000, "g" * 2_000]))
    assert [one.documents for one in found.slices] == [3, 1, 1, 1, 1]
    assert found.documents == 7
    assert [len(found.content(number)) for number in range(5)] == [one.size for one in found.slices]


def test_a_small_batch_has_shards_for_many_servers_and_a_large_one_no_more_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = chats(tmp_path, [str(n) for n in range(200)])
    assert {one.documents for one in cut(file).slices[:-1]} == {module.LEAST_DOCUMENTS}
    monkeypatch.setattr(module, "ENOUGH_SHARDS", 5)
    assert [one.documents for one in cut(file).slices] == [40] * 5
    monkeypatch.setattr(module, "USUAL_DOCUMENTS", 10)
    monkeypatch.setattr(module, "MANY_SHARDS", 4)
    assert [one.documents for one in cut(file).slices] == [50] * 4
    monkeypatch.setattr(module, "MOST_SHARDS", 3)
    with pytest.raises(UserError, match="at most 3"):
        cut(file)


@given(texts=st.lists(st.sampled_from(["", "a", LONG, LONG + "b", "ü" * 300]), min_size=1, max_size=12))
def test_every_line_is_there_once_and_the_same_file_is_the_same_batch(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    file = chats(tmp_path_factory.mktemp("batch"), texts)
    found = cut(file)
    assert list(map(int, documents(found))) == list(range(len(texts)))
    assert cut(file).id == found.id
    assert Shards(file, FORM, placed(file), url=CHAT, model="another").id != found.id


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


CUT_SOURCE = """
import resource, sys
from pathlib import Path
from tests.fleet.batch.test_shards import cut

def most_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

before = most_mib()
found = cut(Path(sys.argv[1]))
assert found.documents == int(sys.argv[2])
print(len(found.slices), most_mib() - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    documents = 100_000
    file = chats(tmp_path, ["the law " * 20] * documents)
    command = [sys.executable, "-c", CUT_SOURCE, str(file), str(documents)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    shards, grown = done.stdout.split()
    assert int(shards) == 400
    # 12 bytes a line, and one shard; the file has 30 MB.
    assert float(grown) < 12
