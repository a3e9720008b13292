"""Leases: one client at a time works on a shard, while clients live and their bucket answers.

A lease is an object. It is taken by creating it, renewed by replacing the generation that its holder wrote, and over when the bucket
has not seen a renewal for `seconds`; then another client replaces the generation that it saw. Whoever comes second finds another
generation and has nothing. A holder that slept through its end learns it at its next renewal, and until then does harm to none: a
shard's result is created once (shards.py).
"""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass, field

from .store import Found, Store

FOLDER = "leases/"


@dataclass
class Lease:
    """A lease that this process holds, or held."""

    shard: int
    fence: int
    """Generation with which it was taken: no other holder's."""
    generation: int
    """Of its last renewal."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """A renewal and the return do not cross."""


def lease_name(shard: int) -> str:
    """Name of a shard's lease."""
    return f"{FOLDER}{shard:05d}"


class Leases:
    """The leases of this process. Each method raises BucketError."""

    def __init__(self, store: Store, *, pod: str, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        # The next renewal comes before a lease is over: none waits long for an answer.
        self._brief = store.brief()
        # Of the process, not of the pod: a container that starts again knows nothing of the leases of the one before.
        self._holder = json.dumps({"holder": f"{pod}/{uuid.uuid4().hex[:12]}"}).encode()

    def listed(self) -> dict[int, Found]:
        """Every lease by shard."""
        return {int(found.name.removeprefix(FOLDER)): found for found in self._store.list(FOLDER)}

    def is_over(self, lease: Found) -> bool:
        """Whether a listed lease was not renewed in time, by the bucket's clock."""
        return lease.now - lease.updated > self._seconds

    def take(self, shard: int, seen: Found | None) -> Lease | None:
        """The shard's lease, None where another client has it. `seen`: a lease that is over."""
        generation = self._write(self._store, shard, seen.generation if seen else 0)
        return None if generation is None else Lease(shard, generation, generation)

    def renew(self, lease: Lease) -> bool:
        """Whether the lease is still this client's."""
        with lease.lock:
            generation = self._write(self._brief, lease.shard, lease.generation)
            lease.generation = generation or lease.generation
        return generation is not None

    def give_back(self, lease: Lease) -> None:
        """End the lease; another client's stays."""
        with lease.lock:
            self._store.delete(lease_name(lease.shard), lease.generation)

    def _write(self, store: Store, shard: int, over: int) -> int | None:
        name = lease_name(shard)
        generation = store.write(name, self._holder, over)
        if generation is None:
            # An earlier attempt may have been stored and its answer lost.
            there = store.read(name)
            if there is not None and there.content == self._holder:
                return there.generation
        return generation
