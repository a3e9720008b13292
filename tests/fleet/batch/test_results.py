"""Results on this machine: interrupted, fetched again, spoiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from facts.user_error import UserError
from fleet.batch.order import digest_of
from fleet.batch.results import clear, merge
from fleet.batch.stored import Batch
from tests.fleet.batch import made


def batch(numbers: list[int], counts: tuple[int, ...]) -> Batch:
    return Batch(
        id="b1",
        name="f",
        url="u",
        model="m",
        documents=len(numbers),
        counts=counts,
        numbers=digest_of(numbers),
        created=0.0,
    )


def keep(folder: Path, shard: int, *numbers: int) -> None:
    file = folder / "objects" / "results" / f"{shard:05d}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(made.result("b1", {"n": n, "custom_id": f"c{n}"}) for n in numbers))


def test_lines_come_in_the_order_of_the_input(tmp_path: Path) -> None:
    keep(tmp_path, 0, 9, 1)
    keep(tmp_path, 1, 4, 7)
    merged = merge(batch([1, 4, 7, 9], (2, 2)), tmp_path, partial=False)
    assert [line.split('"')[3] for line in merged.file.read_text().splitlines()] == ["b1-1", "b1-4", "b1-7", "b1-9"]
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


def test_more_files_than_may_be_open_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.batch.results._MOST_OPEN", 2)
    for shard in range(5):
        keep(tmp_path, shard, shard, shard + 5)
    assert merge(batch(list(range(10)), (2,) * 5), tmp_path, partial=False).documents == 10


@pytest.mark.parametrize("numbers", [(1, 1), (1, 3)])
def test_a_line_twice_or_another_line_is_told(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    keep(tmp_path, 0, *numbers)
    with pytest.raises(UserError, match="exactly the input's lines"):
        merge(batch([1, 2], (2,)), tmp_path, partial=False)
    assert not (tmp_path / "results.jsonl").exists()


def test_a_missing_shard_and_a_spoiled_file_are_told(tmp_path: Path) -> None:
    keep(tmp_path, 0, 1)
    with pytest.raises(UserError, match="1 of 2 shards"):
        merge(batch([1, 2], (1, 1)), tmp_path, partial=False)
    (tmp_path / "objects" / "results" / "00001.jsonl").write_bytes(b"<html>\n")
    with pytest.raises(UserError, match="not a result"):
        merge(batch([1, 2], (1, 1)), tmp_path, partial=False)
