"""The results of a batch on this machine: one file, a line for each document, in the order of the input."""

from __future__ import annotations

import json
import shutil
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from facts.user_error import UserError
from fleet.batch.order import digest_of
from fleet.batch.stored import Batch, StoredBatch
from fleet.clients.side_by_side import side_by_side
from workloads.batch.pods.shards import PARTS, RESULTS, parts_prefix, result_name

if TYPE_CHECKING:
    from fleet.clients.storage import Bucket

FILE, PARTIAL_FILE, SUMMARY_FILE = "results.jsonl", "results-so-far.jsonl", "summary.json"
_OBJECTS: Final = "objects"
"""Folder of what was downloaded and not merged yet: the next fetch goes on with it."""
_AT_ONCE: Final = 8
_MOST_OPEN: Final = 128
"""Files. Below the usual limit of 256 on macOS."""
_SUCCEEDED: Final = b'"error": null}\n'
"""How a line without an error ends. Source: workloads/batch/pods/shards.py, line_of. Any other line is parsed."""


@dataclass(slots=True)
class Merged:
    """What was merged."""

    file: Path
    documents: int = 0
    """Lines."""
    failed: Counter[str] = field(default_factory=Counter)
    """Lines with an error, by code."""


def download(stored: StoredBatch, folder: Path, progress: Callable[[int, int], None], *, partial: bool) -> None:
    """Bring the objects of the results, with `partial` also those of unfinished shards. What is here is not fetched again.

    Raises LiveError; what was fetched is kept.
    """
    if partial:
        # Parts first: one that is gone by then is in its shard's result.
        _download_parts(stored.bucket, f"{stored.prefix}{PARTS}", folder / _OBJECTS / PARTS)
    stored.bucket.mirror(f"{stored.prefix}{RESULTS}", folder / _OBJECTS / RESULTS, progress=progress)


def _download_parts(bucket: Bucket, prefix: str, folder: Path) -> None:
    def bring(name: str) -> None:
        place = folder / name.removeprefix(prefix)
        # A part never changes.
        if not place.exists() and (content := bucket.read(name)) is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            unfinished = place.with_name(f".{place.name}")
            unfinished.write_bytes(content)
            unfinished.replace(place)

    side_by_side(bring, [blob.name for blob in bucket.list_all(prefix)], _AT_ONCE)


def merge(batch: Batch, folder: Path, *, partial: bool) -> Merged:
    """Merge what was downloaded into one file. Raises UserError unless there is exactly one line for each document, or with `partial`
    at most one.
    """
    index = _Index()
    missing = 0
    for shard, count in enumerate(batch.counts):
        result = folder / _OBJECTS / result_name(shard)
        if result.is_file():
            if (lines := index.add(result)) != count:
                raise _wrong(batch, f"shard {shard} has {lines} results for {count} documents")
        elif partial:
            for part in sorted((folder / _OBJECTS / parts_prefix(shard)).glob("*.jsonl"), key=_age):
                index.add(part)
        else:
            missing += 1
    if missing:
        raise UserError(
            f"batch {batch.id} is not finished: {missing:,} of {len(batch.counts):,} shards have no result yet; --partial fetches what "
            "there is"
        )
    if not partial and digest_of(index.numbers) != batch.numbers:
        raise _wrong(batch, "the results are not of exactly the input's lines")
    merged = Merged(folder / (PARTIAL_FILE if partial else FILE))
    unfinished = merged.file.with_name(f".{merged.file.name}.part")
    with unfinished.open("wb") as to:
        for line in index.in_order():
            to.write(line)
            merged.documents += 1
            if not line.endswith(_SUCCEEDED) and (error := json.loads(line)["error"]):
                merged.failed[str(error["code"])] += 1
    unfinished.replace(merged.file)
    return merged


def clear(folder: Path) -> None:
    """Remove what was downloaded: it is in the merged file."""
    if (folder / _OBJECTS).is_dir():
        shutil.rmtree(folder / _OBJECTS)


def _age(part: Path) -> tuple[int, int]:
    """Generation of its lease, and its number: `GENERATION-NUMBER.COUNTS.jsonl`."""
    generation, _, number = part.name.partition(".")[0].partition("-")
    return int(generation), int(number)


class _Index:
    """Where each result is: 24 bytes a line."""

    def __init__(self) -> None:
        self._files: list[Path] = []
        self.numbers, self._offsets, self._places = array("Q"), array("Q"), array("I")

    def add(self, file: Path) -> int:
        """Add a file's lines; how many they are. Raises UserError for a line that is no result."""
        lines = offset = 0
        with file.open("rb") as content:
            for line in content:
                self.numbers.append(_number(line, file))
                self._offsets.append(offset)
                self._places.append(len(self._files))
                offset += len(line)
                lines += 1
        self._files.append(file)
        return lines

    def in_order(self) -> Iterator[bytes]:
        """The first line of each document, by its number."""
        # Imported here: `fleet --help` needs no numpy.
        import numpy as np

        last = -1
        with ExitStack() as closing:
            open_: dict[int, BinaryIO] = {}
            for at in np.argsort(np.frombuffer(self.numbers, dtype=np.uint64), kind="stable").tolist():
                if self.numbers[at] == last:
                    continue
                last = self.numbers[at]
                place = self._places[at]
                if place not in open_:
                    if len(open_) == _MOST_OPEN:
                        closing.close()
                        open_.clear()
                    open_[place] = closing.enter_context(self._files[place].open("rb"))
                open_[place].seek(self._offsets[at])
                yield open_[place].readline()


def _number(line: bytes, file: Path) -> int:
    """The document's number: `{"id": "BATCH-NUMBER", ...`."""
    try:
        return int(line[: line.index(b'"', 8)].rpartition(b"-")[2])
    except ValueError:
        raise UserError(
            f"{file}: not a result: {line[:60].decode(errors='replace')!r}; delete it and fetch again"
        ) from None


def _wrong(batch: Batch, what: str) -> UserError:
    return UserError(
        f"batch {batch.id}: {what}. This is a defect of fleet's clients, or the bucket was changed; please report it"
    )
