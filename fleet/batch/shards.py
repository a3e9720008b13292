"""A batch's documents as shards: small objects, each of which is a pod's work of about a minute."""

from __future__ import annotations

import json
from array import array
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from facts.user_error import UserError
from fleet.batch.requests import Form, LineError

if TYPE_CHECKING:
    from fleet.batch.requests import Request
    from fleet.batch.scan import Line

LEAST_DOCUMENTS: Final = 32
"""Of a shard: fewer end before their pod's start was worth it. Assumed."""
USUAL_DOCUMENTS: Final = 512
"""Of a shard at most, unless there are `MANY_SHARDS`. Assumed: some take a minute or two."""
ENOUGH_SHARDS: Final = 400
"""Shards of a batch while each has `LEAST_DOCUMENTS`: a thousand documents feed eight servers."""
MANY_SHARDS: Final = 2_500
"""Shards of a batch with more than `USUAL_DOCUMENTS` in each. Assumed: ended pods stay for a day, and Kubernetes removes the oldest of
12,500.
"""
MOST_SHARDS: Final = 10_000
MOST_BYTES: Final = 8_000_000
"""Bytes of a shard of several documents: a pod has a whole shard and its answers in memory."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One shard: which documents it has, and what it contains."""

    begin: int
    """Place of its first document among the file's."""
    documents: int
    size: int
    """Bytes."""
    md5: str
    """As Cloud Storage writes it."""


class Places:
    """Where each good line of a file is, and its number: 12 bytes a line."""

    def __init__(self) -> None:
        self.offsets, self.numbers = array("Q"), array("I")

    def add(self, line: Line, _request: Request) -> None:
        """Add the next line of the file."""
        self.offsets.append(line.offset)
        self.numbers.append(line.number)


class Shards:
    """All shards of a file. They are made twice, first for the batch's id, and never held together."""

    def __init__(self, path: Path, form: Form, places: Places, *, url: str, model: str) -> None:
        """Reads the file. Raises UserError if it is no longer the file that was scanned."""
        self._path, self._form = path, form
        self._offsets, self._numbers = places.offsets, places.numbers
        self.url, self.model = url, model
        self.slices: list[Slice] = []
        digest = sha256(f"{url}\0{model}\0".encode())
        with path.open("rb") as file:
            for begin, content, documents in self._cut(file):
                digest.update(content)
                self.slices.append(Slice(begin, documents, len(content), _md5(content)))
        self.id = f"b{digest.hexdigest()[:12]}"
        if len(self.slices) > MOST_SHARDS:
            raise UserError(
                f"{path}: {len(self.slices):,} shards of 8 MB, and a batch has at most {MOST_SHARDS:,}; split the file"
            )

    @property
    def documents(self) -> int:
        """Of the whole batch."""
        return len(self._offsets)

    def content(self, number: int) -> bytes:
        """One shard's lines. Raises UserError if the file has changed."""
        slice_ = self.slices[number]
        with self._path.open("rb") as file:
            places = range(slice_.begin, slice_.begin + slice_.documents)
            made = b"".join(self._line(file, place) for place in places)
        if _md5(made) != slice_.md5:
            raise _changed(self._path)
        return made

    def _cut(self, file: BinaryIO) -> Iterator[tuple[int, bytes, int]]:
        """Place of the first document, content and documents of each shard."""
        begin, made = 0, bytearray()
        # Of the file alone: with another number of servers it is the same batch.
        most = min(USUAL_DOCUMENTS, max(LEAST_DOCUMENTS, self.documents // ENOUGH_SHARDS))
        most = max(most, -(-self.documents // MANY_SHARDS))
        for place in range(self.documents):
            line = self._line(file, place)
            if place > begin and (place - begin == most or len(made) + len(line) > MOST_BYTES):
                yield begin, bytes(made), place - begin
                begin, made = place, bytearray()
            made += line
        yield begin, bytes(made), self.documents - begin

    def _line(self, file: BinaryIO, place: int) -> bytes:
        file.seek(self._offsets[place])
        try:
            request = self._form(file.readline())
        except LineError:
            raise _changed(self._path) from None
        line: dict[str, Any] = {"n": self._numbers[place], "custom_id": request.id, "body": request.body}
        try:
            return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        except UnicodeEncodeError:  # half of a surrogate pair, in a field that is no prompt
            return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _md5(content: bytes) -> str:
    return b64encode(md5(content, usedforsecurity=False).digest()).decode()


def _changed(path: Path) -> UserError:
    return UserError(f"{path} changed while it was read; run the command again")
