"""A batch's documents as shards: small objects, which clients take one at a time."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from facts.user_error import UserError
from fleet.batch.requests import Form, LineError

if TYPE_CHECKING:
    from fleet.batch.order import Order

MOST_DOCUMENTS: Final = 256
"""Documents of a shard. Assumed: a lost lease repeats at most so many, and a million documents are 4,000 objects."""
LEAST_DOCUMENTS: Final = 8
"""Assumed: a shard is some six requests to the bucket, which should be few beside its documents'."""
ENOUGH_SHARDS: Final = 400
"""Shards of a batch, while each has `LEAST_DOCUMENTS`: one is one client's, so a thousand documents feed twelve servers."""
MOST_BYTES: Final = 4_000_000
"""Bytes of a shard of several documents: clients read a whole shard into memory."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One shard: which documents it has, and what it contains."""

    begin: int
    """Place of its first document in the order."""
    documents: int
    size: int
    """Bytes."""
    md5: str
    """As Cloud Storage writes it."""


class Shards:
    """All shards of a file. They are made twice, first for the batch's id, and never held together."""

    def __init__(self, path: Path, form: Form, order: Order, *, url: str, model: str) -> None:
        """Reads the file. Raises UserError if it is no longer the file that was scanned."""
        self._path, self._form = path, form
        self._offsets, self._numbers = order.sorted()
        self.numbers_digest = order.numbers_digest()
        self.url, self.model = url, model
        self.slices: list[Slice] = []
        digest = sha256(f"{url}\0{model}\0".encode())
        with path.open("rb") as file:
            for begin, content, documents in self._cut(file):
                digest.update(content)
                self.slices.append(Slice(begin, documents, len(content), _md5(content)))
        self.id = f"b{digest.hexdigest()[:12]}"

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
        most = min(MOST_DOCUMENTS, max(LEAST_DOCUMENTS, self.documents // ENOUGH_SHARDS))
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
