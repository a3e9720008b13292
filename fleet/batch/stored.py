"""A batch in its bucket: what stands where, and what is read of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from json import dumps
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from facts import strict_json
from facts.texts import camel_case
from facts.user_error import UserError
from fleet.clients.errors import LiveError
from fleet.clients.side_by_side import side_by_side
from workloads.batch.pods.keeper import BATCH, PROGRESS, STOP, SUMMARY, TERMS
from workloads.batch.pods.shards import SHARDS, shard_name

if TYPE_CHECKING:
    from fleet.batch.shards import Shards
    from fleet.clients.storage import Bucket

BATCHES: Final = "batches/"
CANCELLED: Final = "cancelled"
MAX_USD: Final = "max-usd"
_AT_ONCE: Final = 8
"""Requests to the bucket. Assumed: shards of up to 4 MB fill a laptop's connection."""
_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class Where:
    """A stack, and the other options with which commands reach it. As text: what further commands need."""

    stack: str
    options: str = ""

    def __str__(self) -> str:
        return f"--stack {self.stack}{self.options}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """batch.json: what a batch is. It is written once, after all shards."""

    id: str
    name: str
    """Of the file."""
    url: str
    model: str
    documents: int
    counts: tuple[int, ...]
    """Documents of each shard."""
    numbers: str
    """Digest of the documents' line numbers."""
    created: float

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """From JSON. Raises KeyError, TypeError or ValueError."""
        return cls(
            id=str(told["id"]),
            name=str(told["name"]),
            url=str(told["url"]),
            model=str(told["model"]),
            documents=int(told["documents"]),
            counts=tuple(map(int, told["counts"])),
            numbers=str(told["numbers"]),
            created=float(told["created"]),
        )

    def content(self) -> bytes:
        """As it is stored."""
        return _json({"version": 1, **asdict(self), "shards": len(self.counts)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """terms.json: how a run processes it. Each run writes its own."""

    began: float
    servers: int
    deadline: float | None
    """Epoch seconds."""
    max_usd: float | None
    usd_per_server_hour: float | None
    """None if unknown."""
    usd_per_hour_fixed: float
    start_seconds: float
    """Of a server, paid before its first answer."""
    idle_seconds: float
    """Of a server, paid after its last."""
    request_seconds: float
    on_done: str

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """From JSON. Raises KeyError, TypeError or ValueError."""
        return cls(**{name: told[camel_case(name)] for name in cls.__dataclass_fields__})

    def content(self) -> bytes:
        """As it is stored."""
        return _json({camel_case(name): value for name, value in asdict(self).items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """progress.json: written by the first client every ten seconds, and kept at the end."""

    at: float
    documents: int
    done: int
    failed: int
    input_tokens: int
    output_tokens: int
    per_second: float
    """Documents, lately."""
    servers: int
    """Ready ones."""
    usd: float | None
    """Estimated from servers and time; servers not counted if their price is unknown."""
    seconds_left: float | None
    state: str
    """`waiting` for a server, `running`, `done` or `stopped`."""
    reason: str
    shards_done: int
    since: float
    """When this state began."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """From JSON. Raises KeyError, TypeError or ValueError."""
        return cls(**{name: told[camel_case(name)] for name in cls.__dataclass_fields__})


class StoredBatch:
    """One batch in the bucket. All methods raise LiveError."""

    def __init__(self, bucket: Bucket, id_: str) -> None:
        self.bucket, self.id = bucket, id_
        self.prefix = f"{BATCHES}{id_}/"

    def batch(self) -> Batch | None:
        """What it is; None if it was not uploaded to its end."""
        return self._read(BATCH, Batch.of)

    def terms(self) -> Terms | None:
        """Those of the last run."""
        return self._read(TERMS, Terms.of)

    def progress(self) -> Progress | None:
        """None before the first client reports."""
        return self._read(PROGRESS, Progress.of)

    def summary(self) -> dict[str, Any] | None:
        """None before its end."""
        return self._read(SUMMARY, lambda told: dict(told))

    def stopped(self) -> str | None:
        """Why it was told to stop; None if it was not."""
        told = self._read(STOP, lambda told: dict(told))
        return None if told is None else str(told.get("reason", ""))

    def stop(self) -> None:
        """Tell the clients to stop."""
        self.bucket.write(f"{self.prefix}{STOP}", _json({"reason": CANCELLED, "at": time.time()}))

    def go_on(self, terms: Terms, *, again: bool) -> None:
        """Write a run's terms. `again`: its clients do not run, so an earlier stop is taken back; one that comes meanwhile holds."""
        self.bucket.write(f"{self.prefix}{TERMS}", terms.content())
        if again:
            self.bucket.delete(f"{self.prefix}{STOP}")

    def _read(self, name: str, of: Callable[[Mapping[str, Any]], _Told]) -> _Told | None:
        content = self.bucket.read(f"{self.prefix}{name}")
        if content is None:
            return None
        try:
            return of(strict_json.loads(content))
        except (ValueError, KeyError, TypeError) as error:
            raise LiveError(
                f"gs://{self.bucket.name}/{self.prefix}{name} is damaged, or of another version: {type(error).__name__} {error}"
            ) from None


def listed(bucket: Bucket) -> list[Batch]:
    """All batches of the bucket, newest first. Raises LiveError."""
    found = side_by_side(lambda id_: StoredBatch(bucket, id_).batch(), bucket.folders(BATCHES), _AT_ONCE)
    return sorted((one for one in found if one is not None), key=lambda one: one.created, reverse=True)


def choose(bucket: Bucket, where: Where, wanted: str | None) -> StoredBatch:
    """The batch that is meant: the given one, or the only one. Raises UserError with those that there are, and LiveError."""
    if wanted is not None:
        chosen = StoredBatch(bucket, wanted)
        if chosen.batch() is not None:
            return chosen
    found = listed(bucket)
    if wanted is None and len(found) == 1:
        return StoredBatch(bucket, found[0].id)
    there = ", ".join(f"{one.id} ({one.name})" for one in found[:8]) + (" and older ones" if len(found) > 8 else "")
    if not found:
        raise UserError(f"stack {where.stack} has no batch; `fleet batch run FILE {where}` makes one")
    if wanted is None:
        raise UserError(f"stack {where.stack} has several batches, newest first: {there}; name one of them")
    raise UserError(f"stack {where.stack} has no batch {wanted}; it has, newest first: {there}")


def upload(bucket: Bucket, shards: Shards, name: str, progress: Callable[[int, int], None]) -> Batch:
    """Store the shards, then batch.json. What is there with the same content is not sent again. `progress` receives bytes sent and all.

    Raises LiveError, and UserError if the file has changed; then nothing processes what was stored, and the next run goes on.
    """
    stored = StoredBatch(bucket, shards.id)
    there = {blob.name: blob.md5_hash for blob in bucket.list_all(f"{stored.prefix}{SHARDS}")}
    names = [f"{stored.prefix}{shard_name(number)}" for number in range(len(shards.slices))]
    todo = [number for number, slice_ in enumerate(shards.slices) if there.get(names[number]) != slice_.md5]
    total, sent = sum(shards.slices[number].size for number in todo), 0

    def send(number: int) -> None:
        nonlocal sent
        bucket.create(names[number], shards.content(number))
        sent += shards.slices[number].size
        progress(sent, total)

    side_by_side(send, todo, _AT_ONCE)
    known = stored.batch()
    if known is not None:
        return known
    batch = Batch(
        id=shards.id,
        name=name,
        url=shards.url,
        model=shards.model,
        documents=shards.documents,
        counts=tuple(slice_.documents for slice_ in shards.slices),
        numbers=shards.numbers_digest,
        created=round(time.time(), 3),
    )
    bucket.create(f"{stored.prefix}{BATCH}", batch.content())
    return batch


def _json(told: Mapping[str, Any]) -> bytes:
    return dumps(told, separators=(",", ":")).encode() + b"\n"
