"""The results of a batch on this machine: one file, a line for each document, in the order of the input."""

from __future__ import annotations

import heapq
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from facts.user_error import UserError
from fleet.batch.stored import PARTS, Batch, StoredBatch
from workloads.batch.pods.process_shard import line_number

FILE, PARTIAL_FILE, SUMMARY_FILE = "results.jsonl", "results-so-far.jsonl", "summary.json"
_OBJECTS: Final = "objects"
"""Folder of what was downloaded and not merged yet: the next fetch goes on with it."""


@dataclass(slots=True)
class Merged:
    """What was merged."""

    file: Path
    documents: int = 0
    """Lines."""
    failed: Counter[str] = field(default_factory=Counter)
    """Lines with an error, by code."""
    input_tokens: int = 0
    output_tokens: int = 0

    def summary(self) -> dict[str, Any]:
        """As summary.json has it."""
        return {
            "documents": self.documents,
            "failed": sum(self.failed.values()),
            "failedByCode": dict(sorted(self.failed.items())),
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
        }

    def add(self, text: bytes) -> None:
        """Count a line."""
        line = json.loads(text)
        self.documents += 1
        if line["error"]:
            self.failed[str(line["error"]["code"])] += 1
        elif isinstance(usage := line["response"]["body"].get("usage"), dict):
            self.input_tokens += usage.get("prompt_tokens") or 0
            self.output_tokens += usage.get("completion_tokens") or 0


def download(stored: StoredBatch, folder: Path, progress: Callable[[int, int], None]) -> None:
    """Bring the parts. What is here is not fetched again. Raises LiveError; what was fetched is kept."""
    stored.bucket.mirror(f"{stored.prefix}{PARTS}", folder / _OBJECTS, progress=progress)


def merge(batch: Batch, folder: Path, *, partial: bool) -> Merged:
    """Merge what was downloaded into one file. Raises UserError unless there is exactly one line for each document, or with `partial`
    at most one.
    """
    places = [folder / _OBJECTS / f"{shard:05d}.jsonl" for shard in range(batch.shards)]
    missing = sum(not place.is_file() for place in places)
    if missing and not partial:
        raise UserError(
            f"batch {batch.id} is not finished: {missing:,} of {batch.shards:,} shards have no part yet; --partial fetches what is there"
        )
    merged = Merged(folder / (PARTIAL_FILE if partial else FILE))
    unfinished = merged.file.with_name(f".{merged.file.name}.part")
    last = 0
    with unfinished.open("wb") as to:
        # Shards are in the order of the input, and the last one has documents of any of them.
        in_order = (line for place in places[:-1] for line in _lines(place))
        for number, line in heapq.merge(in_order, _lines(places[-1])):
            if number <= last:
                raise _wrong(batch, f"line {number} comes after line {last}")
            last = number
            merged.add(line)
            to.write(line)
    if not partial and merged.documents != batch.documents:
        raise _wrong(batch, f"{merged.documents:,} results for {batch.documents:,} documents")
    unfinished.replace(merged.file)
    return merged


def clear(folder: Path) -> None:
    """Remove what was downloaded: it is in the merged file."""
    if (folder / _OBJECTS).is_dir():
        shutil.rmtree(folder / _OBJECTS)


def _lines(place: Path) -> Iterator[tuple[int, bytes]]:
    """Number and text of each line; none of a file that is missing. Raises UserError."""
    if not place.is_file():
        return
    with place.open("rb") as file:
        for line in file:
            try:
                yield line_number(line), line
            except ValueError:
                text = line[:60].decode(errors="replace")
                raise UserError(f"{place}: not a result: {text!r}; delete it and fetch again") from None


def _wrong(batch: Batch, what: str) -> UserError:
    return UserError(
        f"batch {batch.id}: {what}. This is a defect of fleet's clients, or the bucket was changed; please report it"
    )
