"""One client of a batch: its threads, from the first shard to the last.

Threads: one for each request in flight; one that follows the servers' queues; one that renews leases; one that stores parts and results;
with index 0 the keeper. The main thread opens shards and looks for the end. A thread that fails for a reason of the program ends the
process: its Job starts another, and leases and parts make that safe.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .keeper import BATCH, STOP, TERMS, Batch, Keeper, Terms
from .leases import Leases
from .log import Log
from .requesting import Endpoint, Outcome
from .servers import Servers
from .shards import PART_NUMBERS, PARTS, RESULTS, OpenShard, result_name
from .store import BucketError, Found, Store
from .times import Times
from .window import MOST, Window
from .work import TICK_SECONDS, Work

DONE: Final = "done"
TERMINATED: Final = "terminated"
_DEFECT: Final = "defect"
_NOT_STOPPED: Final = ("", DONE, TERMINATED, _DEFECT)
"""Ends of this client alone, or none."""
LOOK_SECONDS: Final = 0.5
LIST_AGAIN: Final = 6.0
"""A list of free shards is used for so many `idle` times: a shard that another took since costs a request."""
_STACK_BYTES: Final = 1024 * 1024
"""Of a thread: most of two thousand wait in a read. Only what is touched is memory."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Of one client."""

    bucket: str
    batch: str
    endpoint: str
    server_pods: Sequence[tuple[str, int]]
    index: int
    pod: str = ""
    """Its uid, for whoever reads a lease."""
    storage_url: str
    metadata_url: str
    key: str | None = None
    speed: float = 1.0
    most_in_flight: int = MOST


class Client:
    """Run it once, with `run`."""

    def __init__(self, options: Options) -> None:
        self._options, self._times = options, Times().at(options.speed)
        self._chance = random.Random()  # noqa: S311 - spreads clients, guards nothing
        self._store = Store(
            options.bucket,
            storage_url=options.storage_url,
            metadata_url=options.metadata_url,
            pause_seconds=self._times.bucket_pause,
            prefix=f"batches/{options.batch}/",
        )
        self._log = Log(options.batch, options.index, self._times)
        self._leases = Leases(self._store, pod=options.pod, seconds=self._times.lease)
        self._servers = Servers(options.server_pods, self._chance)
        self._work = Work(options.batch, self._times, Window(options.most_in_flight), self._chance)
        self._done: set[int] = set()
        """Shards that have a result, as far as known."""
        self._has_lost = False
        """Whether another client took a shard of this one."""
        self._over = threading.Event()
        self._reason = ""
        """Why it ends: DONE, TERMINATED, or the reason of stop.json."""
        self._defect: BaseException | None = None
        self._looks = threading.Event()
        """Whether the main thread shall look again: a shard was finished, or this client ends."""
        self._quiet = threading.Event()
        """Whether no request is in flight any more, or none is waited for."""
        self._given_back = threading.Event()
        """Whether every lease is given back."""
        self._free: deque[tuple[int, Found | None]] = deque()
        """Shards without a result and without a lease that holds, in the order of taking; the lease of one that is over."""
        self._listed_at = 0.0
        self.is_terminated = False
        """Set by a signal's handler, which may take no lock: end soon, within the time `drain` and what storing takes."""

    def run(self) -> str:
        """Work to the end of the batch; returns why it ended. Raises BucketError where the batch cannot be read."""
        self._batch, self._terms = self._read_batch()
        self._endpoint = Endpoint(
            self._options.endpoint,
            self._batch.url,
            key=self._options.key,
            connect_seconds=self._times.connect,
            request_seconds=self._terms.request_seconds / self._options.speed,
        )
        shards = len(self._batch.counts)
        self._next = self._options.index * shards // max(self._terms.servers, 1) % max(shards, 1)
        self._log.tell("started", f"client {self._options.index}", documents=self._batch.documents, shards=shards)
        threading.stack_size(_STACK_BYTES)
        saving = self._start(self._save)
        for loop in (self._follow_servers, self._renew, self._tick, self._look_for_stop):
            self._start(loop)
        keeper = self._start(self._keep) if self._options.index == 0 else None
        try:
            self._open_shards()
        finally:
            self._over.set()
        self._finish(saving)
        if keeper is not None and self._reason != TERMINATED:
            keeper.join()
        if self._defect is not None:
            raise self._defect
        counts = self._work.counts
        numbers = {"attempts": counts.attempts, "ended": counts.ended, "failedDocuments": counts.failed}
        if self._reason != DONE:
            self._log.tell("stopped", f"client {self._options.index}: {self._reason}", reason=self._reason, **numbers)
        return self._reason

    # Threads

    def _start(self, loop: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                loop()
            except BaseException as error:
                self._defect = self._defect or error
                self._end(_DEFECT)

        thread = threading.Thread(target=run, name=loop.__name__, daemon=True)
        thread.start()
        return thread

    def _end(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._over.set()
        self._looks.set()
        self._work.close()

    def _work_on(self) -> None:
        while (document := self._work.take()) is not None:
            began = time.monotonic()
            try:
                outcome = self._endpoint.send(document.body)
            except Exception as error:
                # Such as an answer nested too deeply to read: it ends one document, not the client.
                outcome = Outcome("failed", code="client-error", message=type(error).__name__)
            self._work.settle(document, outcome, began)

    def _follow_servers(self) -> None:
        workers, before = 0, 0
        while True:
            queues = self._servers.look()
            wanted = self._work.follow(queues, have_come=queues.servers > before)
            before = queues.servers
            while workers < wanted:
                self._start(self._work_on)
                workers += 1
            blind = queues.servers > 0 and not queues.is_read
            message = "the servers' queues cannot be read: requests in flight stay as they are"
            self._log.tell_while(blind, "blind", message, after=self._times.blind, servers=queues.servers)
            if self._over.wait(self._times.watch):
                self._servers.close()
                return

    def _tick(self) -> None:
        while not self._over.wait(TICK_SECONDS):
            self._work.tick()
            if self.is_terminated:
                self._end(TERMINATED)

    def _look_for_stop(self) -> None:
        while True:
            with self._told("look for a stop"):
                stop = self._store.read(STOP)
                if stop is not None:
                    self._end(str(json.loads(stop.content)["reason"]))
            if self._over.wait(self._times.stop):
                return

    def _renew(self) -> None:
        """Until the last shard is given back, also while the client ends."""
        while not self._given_back.wait(self._times.renew):
            for shard in self._work.shards:
                self._renew_one(shard)

    def _renew_one(self, shard: OpenShard) -> None:
        with self._told("renew a lease"):
            if not self._leases.renew(shard.lease):
                shard.is_lost = self._has_lost = True
                self._work.drop(shard)

    def _save(self) -> None:
        while not self._quiet.is_set():
            # At the end at once: whoever ends a pod may not wait for its requests.
            ending = self._over.is_set()
            self._save_shards(0.0 if ending else self._times.part)
            self._quiet.wait(1.0 if ending else TICK_SECONDS)

    def _save_shards(self, age: float) -> None:
        """Store what is complete, and lines that have waited for `age`."""
        for shard in self._work.shards:
            if shard.is_lost:
                continue
            with self._told("store results"):
                if shard.is_complete:
                    shard.finish(self._store)
                    self._done.add(shard.number)
                    self._work.drop(shard)
                    self._looks.set()
                    self._leases.give_back(shard.lease)
                elif shard.has_unsaved and time.monotonic() - shard.saved_at >= age:
                    shard.saved_at = time.monotonic()
                    shard.save(self._store, next(PART_NUMBERS))

    def _keep(self) -> None:
        store, times = self._store, self._times
        keeper = Keeper(store, self._batch, self._terms, times, self._log, speed=self._options.speed)

        def turn() -> None:
            with self._told("count"):
                stopped = "" if self._reason in _NOT_STOPPED else self._reason
                keeper.turn(self._servers.addresses, reason=stopped, blockage=self._work.last_refusal)
            if keeper.reason:
                self._end(keeper.reason)

        while not self._over.is_set():
            turn()
            self._over.wait(times.progress)
        if self._reason == DONE:
            # Whoever comes after this one finds the same results.
            keeper.turn(self._servers.addresses, reason="", blockage="")
            keeper.end()
        elif self._reason not in _NOT_STOPPED:
            # The others end meanwhile.
            until = time.monotonic() + times.stop + times.drain + times.part
            while time.monotonic() < until and self._are_others_at_work():
                time.sleep(times.idle)
            turn()

    def _are_others_at_work(self) -> bool:
        try:
            return any(not self._leases.is_over(lease) for lease in self._leases.listed().values())
        except BucketError:
            return True

    # The main thread

    def _open_shards(self) -> None:
        while not self._over.is_set():
            if not self._work.is_hungry(LOOK_SECONDS):
                continue
            with self._told("open a shard"):
                if self._open_one():
                    continue
                if len(self._done) == len(self._batch.counts):
                    self._end(DONE)
                    return
            self._looks.wait(self._times.idle)
            self._looks.clear()

    def _open_one(self) -> bool:
        """Open a free shard; whether there was one. Raises BucketError."""
        if not self._free or time.monotonic() - self._listed_at > LIST_AGAIN * self._times.idle:
            self._list_free()
        while self._free:
            shard, seen = self._free.popleft()
            if shard not in self._done and self._open_this(shard, seen):
                self._next = (shard + 1) % len(self._batch.counts)
                return True
        return False

    def _list_free(self) -> None:
        """From the shard after the last one: neighbours have the same beginnings, which servers have cached."""
        shards = len(self._batch.counts)
        # In this order: who finishes between the two is seen in the results.
        leases = self._leases.listed()
        self._done.update(int(found.name.removeprefix(RESULTS)[:5]) for found in self._store.list(RESULTS))
        mine = {shard.number for shard in self._work.shards}
        self._free.clear()
        for step in range(shards):
            shard = (self._next + step) % shards
            lease = leases.get(shard)
            if shard not in self._done and shard not in mine and (lease is None or self._leases.is_over(lease)):
                self._free.append((shard, lease))
        self._listed_at = time.monotonic()

    def _open_this(self, number: int, seen: Found | None) -> bool:
        lease = self._leases.take(number, seen)
        if lease is None:
            return False
        # Open at once, so that its lease is renewed while it is read.
        shard = OpenShard(lease, saved_at=time.monotonic())
        self._work.open(shard, [])
        try:
            # Finished by another since it was listed?
            if self._store.has(result_name(number)):
                self._done.add(number)
                self._close_shard(shard)
                return False
            self._work.open(shard, shard.load(self._store))
        except BucketError:
            self._close_shard(shard)
            raise
        return True

    def _close_shard(self, shard: OpenShard) -> None:
        self._work.drop(shard)
        with self._told("give a lease back"):
            self._leases.give_back(shard.lease)

    def _finish(self, saving: threading.Thread) -> None:
        """Let open requests end, store their lines, give leases back."""
        if self._reason != DONE:
            self._work.wait_for_open_requests(self._times.drain)
        self._quiet.set()
        saving.join()
        if self._reason != DONE:
            self._save_shards(0.0)
        shards = self._work.shards
        for shard in shards:
            self._close_shard(shard)
        if self._reason == DONE and (shards or self._has_lost):
            # Others finished what was this client's, and its parts may have come after that.
            with self._told("delete parts"):
                for part in self._store.list(PARTS):
                    self._store.delete(part.name)
        self._given_back.set()

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Log a bucket that does not answer for long; what failed is tried again in its next turn."""
        try:
            yield
        except BucketError as error:
            self._log.tell_while(True, "blind", f"cannot {what}: {error}", after=self._times.blind)
        else:
            self._log.tell_while(False, "blind", f"cannot {what}:")

    def _read_batch(self) -> tuple[Batch, Terms]:
        batch, terms = self._store.read(BATCH), self._store.read(TERMS)
        if batch is None or terms is None:
            raise BucketError(f"gs://{self._options.bucket}/{self._store.prefix} has no {TERMS if batch else BATCH}")
        return Batch.of(batch.content), Terms.of(terms.content)
