"""The documents of a client's open shards: which one is sent next, and what becomes of it."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from itertools import count

from .requesting import Outcome
from .shards import Document, OpenShard, line_of
from .times import Times
from .window import Gate, Queues, Window

MOST_FAILURES = 5
"""Attempts that may fail before a document's line is an error: a document that breaks servers ends there."""
MOST_TIMEOUTS = 2
"""The first one may have been a machine that vanished."""
MOST_UNSAVED_BYTES = 64 * 2**20
"""Of result lines that the bucket does not take: more are not asked for."""
MOST_READY_BYTES = 64 * 2**20
"""Of documents that wait here: while there are so many, no further shard is opened."""
TICK_SECONDS = 0.05
"""Between two looks for documents whose pause is over."""


@dataclass
class Counts:
    """Of this process."""

    ended: int = 0
    failed: int = 0
    attempts: int = 0
    refused: int = 0


class Work:
    """Shared by all threads of a client."""

    def __init__(self, batch: str, times: Times, window: Window, chance: random.Random) -> None:
        self._batch, self._times, self._window = batch, times, window
        self._gate, self._chance = Gate(times, chance), chance
        self._lock = threading.Lock()
        # Of one lock: a thread in two thousand is woken, and no other.
        self._sendable, self._hungry, self._quiet = (threading.Condition(self._lock) for _ in range(3))
        self._ready: deque[Document] = deque()
        self._ready_bytes = 0
        self._later: list[tuple[float, int, Document]] = []
        self._order = count()
        self._shards: dict[int, OpenShard] = {}
        self._in_flight = self._most_in_flight = 0
        self._is_closed = False
        self.counts = Counts()
        self.last_refusal = ""
        """Code of the last request that no server took; empty after an answer."""

    # Shards

    @property
    def shards(self) -> list[OpenShard]:
        """Open shards."""
        with self._lock:
            return list(self._shards.values())

    def open(self, shard: OpenShard, documents: list[Document]) -> None:
        """Work on a shard."""
        with self._lock:
            if shard.is_lost:
                return
            self._shards[shard.number] = shard
            self._ready.extend(documents)
            self._ready_bytes += sum(len(document.body) for document in documents)
            self._wake()

    def drop(self, shard: OpenShard) -> None:
        """The shard is finished, or another client's."""
        with self._lock:
            self._shards.pop(shard.number, None)
            self._ready = deque(document for document in self._ready if document.shard is not shard)
            self._ready_bytes = sum(len(document.body) for document in self._ready)
            self._later = [entry for entry in self._later if entry[2].shard is not shard]
            heapq.heapify(self._later)

    def is_hungry(self, seconds: float) -> bool:
        """Whether another shard is wanted, or will be within that time: as many documents wait here as may be in flight."""
        with self._lock:
            return self._hungry.wait_for(lambda: self._is_hungry() or self._is_closed, seconds) and not self._is_closed

    def _is_hungry(self) -> bool:
        return len(self._ready) < max(self._window.limit, 64) and self._ready_bytes < MOST_READY_BYTES

    # Documents

    def take(self) -> Document | None:
        """The next document to send, when one may be sent; None at the end."""
        with self._lock:
            while not self._is_closed:
                if self._room() and not self._gate.enter(time.monotonic()):
                    document = self._ready.popleft()
                    self._ready_bytes -= len(document.body)
                    self._in_flight += 1
                    self._most_in_flight = max(self._most_in_flight, self._in_flight)
                    if self._is_hungry():
                        self._hungry.notify()
                    return document
                self._sendable.wait()
            return None

    def tick(self) -> None:
        """Go on with what waited for a moment; call it every TICK_SECONDS."""
        with self._lock:
            now = time.monotonic()
            while self._later and self._later[0][0] <= now:
                self._ready.appendleft(heapq.heappop(self._later)[2])
                self._ready_bytes += len(self._ready[0].body)
            self._wake()

    def _wake(self) -> None:
        self._sendable.notify(1 if self._gate.is_closed else self._room())

    def _room(self) -> int:
        """Documents that could be sent now."""
        return 0 if self._is_clogged() else max(0, min(len(self._ready), self._window.limit - self._in_flight))

    def _is_clogged(self) -> bool:
        return sum(shard.unsaved_bytes for shard in self._shards.values()) > MOST_UNSAVED_BYTES

    def settle(self, document: Document, outcome: Outcome, began: float) -> None:
        """An attempt that began at that monotonic time has ended."""
        ended = self._ended(document, outcome)
        line = line_of(self._batch, document, ended) if ended else None
        if line is not None:
            document.shard.add(line)
        with self._lock:
            now = time.monotonic()
            self._in_flight -= 1
            self.counts.attempts += 1
            if outcome.kind == "answer":
                self._gate.answered()
                self.last_refusal = ""
            else:
                self._gate.failed(now, began)
                self.last_refusal = outcome.code
            if outcome.is_full:
                self._window.shrink()
            if line is not None:
                self.counts.ended += 1
                self.counts.failed += line.tally.failed
            elif not document.shard.is_lost:
                self.counts.refused += outcome.kind == "refused"
                heapq.heappush(self._later, (now + self._pause(document, outcome), next(self._order), document))
            if not self._in_flight:
                self._quiet.notify_all()
            # The thread that settled takes the next one itself.

    @staticmethod
    def _ended(document: Document, outcome: Outcome) -> Outcome | None:
        """The outcome that ends the document; None: it is asked again."""
        if outcome.kind == "answer":
            return outcome
        if outcome.kind == "refused":
            return None
        document.failures += outcome.kind == "failed"
        document.timeouts += outcome.kind == "timeout"
        if document.timeouts >= MOST_TIMEOUTS or document.failures >= MOST_FAILURES:
            attempts = document.failures + document.timeouts
            return replace(outcome, message=f"{outcome.message}, after {attempts} attempts")
        return None

    def _pause(self, document: Document, outcome: Outcome) -> float:
        if outcome.kind == "refused":
            return self._chance.uniform(0.5, 1.0) * self._times.pause
        return self._times.again * 4.0 ** (max(document.failures, 1) - 1)

    # The servers

    def follow(self, queues: Queues, *, have_come: bool) -> int:
        """Follow the servers' queues; returns the threads that are wanted. `have_come`: there were no servers before."""
        with self._lock:
            self._window.adapt(queues, self._most_in_flight)
            self._most_in_flight = self._in_flight
            if have_come:
                self._gate.answered()
            self._wake()
            return self._window.limit

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return self._in_flight

    # The end

    def close(self) -> None:
        """Send nothing more."""
        with self._lock:
            self._is_closed = True
            self._sendable.notify_all()
            self._hungry.notify_all()

    def wait_for_open_requests(self, seconds: float) -> None:
        """Wait for what is in flight."""
        with self._lock:
            self._quiet.wait_for(lambda: not self._in_flight, seconds)
