"""A shard that this client holds: its documents, the result lines so far, and how they reach the bucket.

Lines are stored as parts while the shard is worked on. The result, one line for each document, is created once: whoever is second drops
its own. Parts are deleted only after that, so no answer is lost, whenever a client ends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from .leases import Lease
from .requesting import Outcome
from .store import Store

SHARDS, PARTS, RESULTS = "shards/", "parts/", "results/"


@dataclass
class Tally:
    """Documents that ended, and their tokens."""

    documents: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, other: Tally) -> None:
        """Add another's counts."""
        self.documents += other.documents
        self.failed += other.failed
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens


@dataclass(eq=False)
class Document:
    """One line of a shard, and what was tried."""

    shard: OpenShard
    n: int
    custom_id: str
    body: bytes
    failures: int = 0
    timeouts: int = 0
    last: Outcome | None = None
    """The last failed attempt."""


@dataclass(frozen=True)
class Line:
    """One line of a result."""

    n: int
    text: bytes
    """JSON with a line feed."""
    tally: Tally


def shard_name(shard: int) -> str:
    """Name of a shard's documents."""
    return f"{SHARDS}{shard:05d}.jsonl"


def result_name(shard: int) -> str:
    """Name of a shard's result."""
    return f"{RESULTS}{shard:05d}.jsonl"


def parts_prefix(shard: int) -> str:
    """Beginning of the names of a shard's parts."""
    return f"{PARTS}{shard:05d}/"


def part_name(lease: Lease, number: int, tally: Tally) -> str:
    """Name of a part. It has the counts, so that the progress needs no part's content."""
    counts = f"{tally.documents}.{tally.failed}.{tally.input_tokens}.{tally.output_tokens}"
    return f"{parts_prefix(lease.shard)}{lease.fence}-{number}.{counts}.jsonl"


def tally_of_part(name: str) -> Tally:
    """The counts in a part's name."""
    return Tally(*(int(number) for number in name.rsplit("/", 1)[1].split(".")[1:5]))


def line_of(batch: str, document: Document, outcome: Outcome) -> Line:
    """The document's line, in OpenAI's format of results."""
    response: dict[str, Any] | None = None
    if outcome.status:
        response = {"status_code": outcome.status, "request_id": outcome.request_id, "body": outcome.body}
    line = {
        "id": f"{batch}-{document.n}",
        "custom_id": document.custom_id,
        "response": response,
        "error": {"code": outcome.code, "message": outcome.message} if outcome.code else None,
    }
    # ASCII: half of a surrogate pair in an answer has no UTF-8.
    return Line(document.n, json.dumps(line).encode() + b"\n", _tally_of_line(line))


def _tally_of_line(line: Mapping[str, Any]) -> Tally:
    if line["error"]:
        return Tally(1, 1)
    usage = line["response"]["body"].get("usage")
    tokens = [usage.get(name) if isinstance(usage, dict) else 0 for name in ("prompt_tokens", "completion_tokens")]
    return Tally(1, 0, *(number if isinstance(number, int) else 0 for number in tokens))


def lines_of(content: bytes) -> Iterable[tuple[int, bytes]]:
    """The lines of parts and results, with their documents' numbers."""
    for line in content.splitlines(keepends=True):
        # `{"id": "BATCH-N", ...`: no line is parsed for it.
        yield int(line[: line.index(b'"', 8)].rsplit(b"-", 1)[1]), line


def tally_of(content: bytes) -> tuple[Tally, dict[str, int]]:
    """What a result's lines say, and the errors by code."""
    tally = Tally()
    codes: dict[str, int] = {}
    for text in content.splitlines():
        line = json.loads(text)
        error = line["error"]
        if error:
            codes[error["code"]] = codes.get(error["code"], 0) + 1
        tally.add(_tally_of_line(line))
    return tally, codes


@dataclass(eq=False)
class OpenShard:
    """A shard in work. Its methods may be called from any thread; `save` and `finish` from one."""

    lease: Lease
    documents: int = 0
    """All of the shard."""
    is_loaded: bool = False
    is_lost: bool = False
    """Whether another client took the lease."""
    saved_at: float = 0.0
    """Monotonic time of the last part."""
    unsaved_bytes: int = 0
    _missing: set[int] = field(default_factory=set)
    _lines: dict[int, Line] = field(default_factory=dict)
    _parts: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def number(self) -> int:
        """Number of the shard."""
        return self.lease.shard

    @property
    def is_complete(self) -> bool:
        """Whether every document has a line."""
        return self.is_loaded and not self._missing

    @property
    def has_unsaved(self) -> bool:
        """Whether lines are in no part yet."""
        return bool(self._lines)

    def load(self, store: Store) -> list[Document]:
        """Read the shard and what earlier holders stored; returns the documents without a line. Raises BucketError."""
        shard = store.read(shard_name(self.number))
        if shard is None:
            raise ValueError(f"{shard_name(self.number)} does not exist")
        self._parts = [found.name for found in store.list(parts_prefix(self.number))]
        done = set(self._stored(store))
        documents = []
        # As bytes: text would be cut at every separator that Unicode knows.
        for text in shard.content.split(b"\n"):
            if text:
                line = json.loads(text)
                self.documents += 1
                if line["n"] not in done:
                    body = json.dumps(line["body"]).encode()
                    documents.append(Document(self, line["n"], line["custom_id"], body))
        self._missing = {document.n for document in documents}
        self.is_loaded = True
        return documents

    def add(self, line: Line) -> None:
        """A document ended."""
        with self._lock:
            if line.n in self._missing:
                self._missing.discard(line.n)
                self._lines[line.n] = line
                self.unsaved_bytes += len(line.text)

    def save(self, store: Store, number: int) -> None:
        """Store the lines since the last part. `number`: no other part's of this process. Raises BucketError; the lines stay then."""
        with self._lock:
            lines = list(self._lines.values())
        if not lines:
            return
        tally = Tally()
        for line in lines:
            tally.add(line.tally)
        name = part_name(self.lease, number, tally)
        # None: an earlier attempt of this call; no other process writes this name.
        store.create(name, b"".join(line.text for line in lines))
        with self._lock:
            self._parts.append(name)
            for line in lines:
                del self._lines[line.n]
                self.unsaved_bytes -= len(line.text)

    def finish(self, store: Store) -> bool:
        """Create the result, then delete the parts; whether it is this client's. Raises BucketError; nothing is lost then."""
        lines = self._stored(store)
        with self._lock:
            for n, line in self._lines.items():
                lines.setdefault(n, line.text)
        is_own = False
        if len(lines) == self.documents:
            content = b"".join(lines[n] for n in sorted(lines))
            is_own = store.create(result_name(self.number), content) is not None
        elif not store.has(result_name(self.number)):
            # Parts go once there is a result, which a former or later holder then created.
            raise ValueError(f"shard {self.number} has {self.documents} documents and {len(lines)} lines")
        for part in self._parts:
            store.delete(part)
        return is_own

    def _stored(self, store: Store) -> dict[int, bytes]:
        """The first line of each document in the parts."""
        lines: dict[int, bytes] = {}
        for name in self._parts:
            part = store.read(name)
            for n, text in lines_of(part.content if part else b""):
                lines.setdefault(n, text)
        return lines


PART_NUMBERS = count()
"""Of this process's parts: no two have one name, though a lease may be taken twice."""
