"""Results on this machine: interrupted, fetched again, spoiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from facts.user_error import UserError
from fleet.batch.results import clear, merge
from fleet.batch.stored import Batch
from tests.fleet.batch import made
from tests.support.rows import each_row


def batch(documents: int, *counts: int) -> Batch:
    return Batch(id="b1", name="f", url="u", model="m", documents=documents, counts=counts, created=0.0)


def keep(folder: Path, shard: int, *numbers: int) -> None:
    file = folder / "objects" / f"{shard:05d}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(made.result("b1", {"n": n, "custom_id": f"c{n}"}) for n in numbers))


def test_documents_of_the_last_shard_come_at_their_place(tmp_path: Path) -> None:
    keep(tmp_path, 0, 1, 4)
    keep(tmp_path, 1, 9)
    keep(tmp_path, 2, 7, 12)
    merged = merge(batch(5, 3, 2), tmp_path, partial=False)
    lines = [json.loads(line) for line in merged.file.read_bytes().splitlines()]
    assert [line["id"] for line in lines] == ["b1-1", "b1-4", "b1-7", "b1-9", "b1-12"]
    assert (merged.summary()["documents"], merged.summary()["inputTokens"]) == (5, 35)
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


@each_row("shards, said", [(((1, 2), (2,)), "after"), (((1, 1), ()), "after"), (((1,), ()), "1 results for 2")])
def test_a_line_twice_or_missing_is_told(tmp_path: Path, shards: tuple[tuple[int, ...], ...], said: str) -> None:
    for shard, numbers in enumerate(shards):
        keep(tmp_path, shard, *numbers)
    with pytest.raises(UserError, match=said):
        merge(batch(2, 2), tmp_path, partial=False)
    assert not (tmp_path / "results.jsonl").exists()


def test_a_missing_shard_and_a_spoiled_file_are_told(tmp_path: Path) -> None:
    keep(tmp_path, 0, 1)
    with pytest.raises(UserError, match="2 of 3 shards"):
        merge(batch(2, 1, 1), tmp_path, partial=False)
    assert merge(batch(2, 1, 1), tmp_path, partial=True).documents == 1
    for shard in (1, 2):
        (tmp_path / "objects" / f"{shard:05d}.jsonl").write_bytes(b"<html>\n")
    with pytest.raises(UserError, match="not a result"):
        merge(batch(2, 1, 1), tmp_path, partial=False)
