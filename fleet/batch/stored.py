"""A batch in its bucket: what stands where, and what is read of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from json import dumps
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from facts import strict_json
from facts.texts import camel_case
from facts.user_error import UserError
from fleet.clients.errors import LiveError
from fleet.clients.side_by_side import side_by_side

if TYPE_CHECKING:
    from fleet.batch.shards import Shards
    from fleet.clients.storage import Bucket

BATCHES: Final = "batches/"
SHARDS, PARTS = "shards/", "parts/"
"""Source: workloads/batch/pods/process_shard.py."""
BATCH, RUNS = "batch.json", "runs.json"
_AT_ONCE: Final = 8
"""Requests to the bucket. Assumed: shards of up to 8 MB fill a laptop's connection."""
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
    created: float

    @property
    def shards(self) -> int:
        """Parts of a batch that is done: one for each shard, and that of the last, with what failed twice."""
        return len(self.counts) + 1

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
            created=float(told["created"]),
        )

    def content(self) -> bytes:
        """As it is stored."""
        return _json(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a batch, as runs.json has it: what it may take, and until when it is paid. Times are epoch seconds."""

    began: float
    servers: int
    deadline: float | None
    max_usd: float | None
    """For the sum of all runs."""
    usd_per_hour: float | None
    """Of all its servers and of what is billed without them; None if unknown."""
    idle_usd: float
    """For its servers from its end until their machines are gone."""
    until: float
    """When its pods end, whatever is left."""
    ended: float | None = None
    """None while it runs, or if no command saw its end."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """From JSON. Raises KeyError or TypeError."""
        return cls(**{name: told[camel_case(name)] for name in cls.__dataclass_fields__})

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {camel_case(name): value for name, value in asdict(self).items()}

    def usd(self, now: float) -> float:
        """What it costs at most so far: as if all its servers ran from its begin. Without a known end, it went on until it had to end."""
        end = min(now, self.until) if self.ended is None else self.ended
        return max(0.0, end - self.began) * (self.usd_per_hour or 0.0) / 3600 + self.idle_usd


class StoredBatch:
    """One batch in the bucket. All methods raise LiveError."""

    def __init__(self, bucket: Bucket, id_: str) -> None:
        self.bucket, self.id = bucket, id_
        self.prefix = f"{BATCHES}{id_}/"

    def batch(self) -> Batch | None:
        """What it is; None if it was not uploaded to its end."""
        return self._read(BATCH, Batch.of)

    def runs(self) -> tuple[Run, ...]:
        """All runs so far, in order."""
        return self._read(RUNS, _runs_of) or ()

    def write_runs(self, runs: Sequence[Run], *, instead_of: Sequence[Run]) -> bool:
        """Store the runs. False if those that are stored are no longer the ones that the caller read: nothing is written then, as none may
        be missing from the sum.
        """
        name = f"{self.prefix}{RUNS}"
        content, generation = self.bucket.read_version(name)
        if (self._parsed(RUNS, content, _runs_of) or ()) != tuple(instead_of):
            return False
        return self.bucket.replace(name, _json({"runs": [run.plain() for run in runs]}), generation)

    def end_run(self, ended: float) -> None:
        """Note the end of the last run, unless it is known, or another one began meanwhile: the Job before it may still be there."""
        runs = self.runs()
        if runs and runs[-1].ended is None and runs[-1].began <= ended:
            over = replace(runs[-1], ended=min(ended, runs[-1].until))
            self.write_runs([*runs[:-1], over], instead_of=runs)

    def parts(self) -> tuple[int, ...]:
        """Numbers of the shards that have their part."""
        prefix = f"{self.prefix}{PARTS}"
        return tuple(int(blob.name.removeprefix(prefix)[:5]) for blob in self.bucket.list_all(prefix))

    def _read(self, name: str, of: Callable[[Mapping[str, Any]], _Told]) -> _Told | None:
        return self._parsed(name, self.bucket.read(f"{self.prefix}{name}"), of)

    def _parsed(self, name: str, content: bytes | None, of: Callable[[Mapping[str, Any]], _Told]) -> _Told | None:
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
    names = [f"{stored.prefix}{SHARDS}{number:05d}.jsonl" for number in range(len(shards.slices))]
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
        created=round(time.time(), 3),
    )
    bucket.create(f"{stored.prefix}{BATCH}", batch.content())
    return batch


def _runs_of(told: Mapping[str, Any]) -> tuple[Run, ...]:
    return tuple(map(Run.of, told["runs"]))


def _json(told: Mapping[str, Any]) -> bytes:
    return dumps(told, separators=(",", ":")).encode() + b"\n"
