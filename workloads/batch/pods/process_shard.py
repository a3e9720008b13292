"""One pod of a batch: asks the documents of one shard, and creates the shard's part once: `python3 -m workloads.batch.pods.process_shard`.

Objects below `batches/ID/`, NNNNN is a shard's number:
- `shards/NNNNN.jsonl`: its documents, a line of JSON each: `n` (line of the input), `custom_id`, `body`.
- `checkpoints/NNNNN.jsonl`: the result lines of an unfinished shard, replaced every minute.
- `later/NNNNN`: exists if documents of the shard failed twice, and have no line in its part. They are left for the last shard, which starts
  when all others have a part: it asks them a few at a time, and what fails again alone. So a document that breaks a server ends with an
  error, and its neighbors do not.
- `parts/NNNNN.jsonl`: the result lines. It is created once, after `later`.

Exit codes: 0, the part exists. 143, a stop signal. 1, most documents failed. 2, a wrong command line. 3, a wrong key, model or route, or
the documents are gone. 4, the batch's time is over. Kubernetes starts the shard again after 143 and 1, and ends the Job after 2, 3 and 4
(job.py).
"""

from __future__ import annotations

import argparse
import heapq
import json
import logging
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workloads.batch.pods.bucket import BatchBucket
from workloads.batch.pods.requesting import SETUP, Endpoint, Outcome
from workloads.benchmark.pods.results_bucket import METADATA_URL, STORAGE_URL, BucketError

T = TypeVar("T")
FAILURES = 2
"""Attempts of a shard before a document is left for the last shard: an attempt may cost a server's restart."""
LAST_FAILURES = 3
"""Attempts of the last shard before a document's line is an error: one beside others, two alone."""
FEW = 8
"""Documents that the last shard has in flight at most. Assumed: one that breaks a server takes so many along, to be asked alone."""
PAUSE_SECONDS = 2.0
"""Mean pause of a document before its second attempt."""
LAST_PAUSES_SECONDS = (15.0, 60.0)
"""In the last shard nothing starts for so long after a document's first and second failure: a server whose engine died may still answer."""
LONGEST_PAUSE_SECONDS = 60.0
"""Between two attempts at servers that accept no request: they start, or their queue is full."""
CHECKPOINT_SECONDS = 60.0
DRAIN_SECONDS = 60.0
"""For requests in flight after a stop signal. Half of the pod's grace: the rest is for the checkpoint."""
LOOK_SECONDS = 3.0
"""Between two looks of the last shard for the parts of the others."""
BLIND_SECONDS = 120.0
"""A bucket that fails for so long is logged, then again every `REPEAT_SECONDS`."""
REPEAT_SECONDS = 300.0
"""Between two log lines about what lasts, so that an alert stays open."""
STACK_BYTES = 512 * 1024
"""Of a thread: most wait in a read."""
TERMINATED, TIME_OVER, WRONG_SETUP, SHARD_FAILED = 128 + signal.SIGTERM, 4, 3, 1


def numbers_of(ranges: str) -> list[int]:
    """Numbers of "0-3,7", the form of a Job's `completedIndexes`."""
    found: list[int] = []
    for one in filter(None, ranges.split(",")):
        first, _, last = one.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def line_number(line: bytes) -> int:
    """The document's number in a result line, `{"id": "BATCH-N", ...`; the line is not parsed."""
    return int(line[: line.index(b'"', 8)].rpartition(b"-")[2])


@dataclass(order=True)
class Document:
    """One document that has no line yet, in the order of asking."""

    failures: int
    """Failed attempts; the first pass orders by time alone, so it stays 0 there."""
    due: float
    """Monotonic time before which it is not asked again."""
    n: int
    custom_id: str = field(compare=False)
    body: bytes = field(compare=False)
    attempts: int = field(default=0, compare=False)


class Shard:
    """The documents of one shard in work: `load`, `work` in many threads, `finish`."""

    def __init__(self, given: argparse.Namespace, number: int) -> None:
        self._speed = given.speed
        self._batch, self.number, self._prefix = given.batch, number, f"batches/{given.batch}/"
        self.is_last = number == given.last
        self._bucket = BatchBucket(
            given.bucket,
            storage_url=given.storage_url,
            metadata_url=given.metadata_url,
            pause_seconds=2.0 / given.speed,
        )
        self._endpoint = Endpoint(
            given.endpoint,
            given.url,
            key=os.environ.get("OPENAI_API_KEY"),
            connect_seconds=10.0,
            request_seconds=given.request_seconds / given.speed,
        )
        self._most_in_flight = FEW if self.is_last else given.in_flight
        self._limit = 1 if self.is_last else self._most_in_flight
        self._in_flight = 0
        self._not_before = 0.0
        self._todo: list[Document] = []
        self._lines: dict[int, bytes] = {}
        self._later: list[Outcome] = []
        self._documents = self._errors = 0
        self._change = threading.Condition()
        self.is_over = False
        """Whether the batch's time is over."""
        self.stopping = threading.Event()
        self.moved_at = time.monotonic()
        """Monotonic time of the last document that ended, or of the last attempt that no server accepted."""
        self._saved = 0

    def end_time(self) -> None:
        """The batch's time is over: stop."""
        self.is_over = True
        self.stopping.set()

    # The bucket

    def name(self, folder: str, number: int | None = None, end: str = ".jsonl") -> str:
        """Name of a shard's object, by default this one's."""
        return f"{self._prefix}{folder}/{self.number if number is None else number:05d}{end}"

    def patiently(self, ask: Callable[[], T]) -> T:
        """What the bucket answers, however long it fails. Raises BucketError only after a stop."""
        began = time.monotonic()
        next_word = began + BLIND_SECONDS / self._speed
        while True:
            try:
                return ask()
            except BucketError as error:
                if self.stopping.wait(PAUSE_SECONDS / self._speed):
                    raise
                if time.monotonic() >= next_word:
                    next_word = time.monotonic() + REPEAT_SECONDS / self._speed
                    self.log("blind", "WARNING", f"the bucket fails: {error}")

    def exists(self) -> bool:
        """Whether the shard has its part."""
        return bool(self.patiently(lambda: self._bucket.names(self.name("parts"))))

    def wait_for_others(self, others: int) -> None:
        """Until every other shard has its part, or a stop."""
        while len(self.patiently(lambda: self._bucket.names(f"{self._prefix}parts/"))) < others:
            if self.stopping.wait(LOOK_SECONDS / self._speed):
                return

    def load(self) -> None:
        """Read the documents that have no line yet."""
        self._lines = self._stored(self.name("checkpoints"))
        self._saved = len(self._lines)
        if self.is_last:
            for name in self.patiently(lambda: self._bucket.names(f"{self._prefix}later/")):
                number = int(name[-5:])
                self._add(number, self._stored(self.name("parts", number)).keys())
        else:
            self._add(self.number, ())
        heapq.heapify(self._todo)

    def _add(self, number: int, answered: Collection[int]) -> None:
        content = self._read(self.name("shards", number))
        if content is None:
            self.log("failing", "WARNING", "the batch's documents are gone from the bucket: retentionDays are over")
            raise SystemExit(WRONG_SETUP)
        # As bytes: text would be cut at every separator that Unicode knows.
        for text in content.split(b"\n"):
            if text and (line := json.loads(text))["n"] not in answered:
                self._documents += 1
                if line["n"] not in self._lines:
                    body = json.dumps(line["body"]).encode()
                    self._todo.append(Document(0, 0.0, line["n"], line["custom_id"], body))

    def _stored(self, name: str) -> dict[int, bytes]:
        """Result lines of an object, by the document's number."""
        return {line_number(line): line for line in (self._read(name) or b"").splitlines(keepends=True)}

    def _read(self, name: str) -> bytes | None:
        return self.patiently(lambda: self._bucket.read(name))

    # Threads

    def start(self) -> list[threading.Thread]:
        """Start a thread for each request in flight."""
        threads = [
            threading.Thread(target=self._work, daemon=True) for _ in range(min(self._most_in_flight, len(self._todo)))
        ]
        for thread in threads:
            thread.start()
        return threads

    def _work(self) -> None:
        try:
            while (document := self._take()) is not None:
                outcome = self._until_accepted(document.body)
                if outcome is None:
                    return
                self._settle(document, outcome)
        except BaseException:
            # A defect of this program ends the process; Kubernetes counts it against the index.
            logging.getLogger("batch").exception("a thread failed")
            os._exit(SHARD_FAILED)

    def _take(self) -> Document | None:
        with self._change:
            while self._todo and not self.stopping.is_set():
                wait = max(self._todo[0].due, self._not_before) - time.monotonic()
                if wait <= 0 and self._may_start(self._todo[0]):
                    self._in_flight += 1
                    return heapq.heappop(self._todo)
                self._change.wait(min(max(wait, 0.01), 1.0) if wait > 0 else 1.0)
        return None

    def _may_start(self, document: Document) -> bool:
        return not self._in_flight if document.failures else self._in_flight < self._limit

    def _until_accepted(self, body: bytes) -> Outcome | None:
        """The outcome of the first attempt that a server accepts; None after a stop."""
        pause = 0.5 / self._speed
        while True:
            outcome = self._endpoint.send(body)
            if outcome.kind != "refused":
                return None if outcome.kind != "answer" and self.stopping.is_set() else outcome
            self.moved_at = time.monotonic()
            if self.stopping.wait(pause * random.uniform(0.5, 1.0)):  # noqa: S311 - spreads attempts, guards nothing
                return None
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS / self._speed)

    def _settle(self, document: Document, outcome: Outcome) -> None:
        with self._change:
            self._in_flight -= 1
            document.attempts += 1
            if outcome.kind == "answer":
                self._end(document, outcome)
                self._limit = min(2 * self._limit, self._most_in_flight)
            elif self.is_last:
                self._fail_last(document, outcome)
            elif document.attempts == FAILURES:
                self.moved_at = time.monotonic()
                self._later.append(outcome)
            else:
                document.due = time.monotonic() + PAUSE_SECONDS * random.uniform(0.5, 1.5) / self._speed  # noqa: S311
                heapq.heappush(self._todo, document)
            self._change.notify_all()

    def _fail_last(self, document: Document, outcome: Outcome) -> None:
        document.failures += 1
        self._limit = 1
        if document.failures == LAST_FAILURES:
            self._end(document, outcome)
        else:
            heapq.heappush(self._todo, document)
        pause = LAST_PAUSES_SECONDS[min(document.failures, len(LAST_PAUSES_SECONDS)) - 1]
        self._not_before = max(self._not_before, time.monotonic() + pause / self._speed)

    def _end(self, document: Document, outcome: Outcome) -> None:
        self.moved_at = time.monotonic()
        self._errors += bool(outcome.code)
        response: dict[str, Any] | None = None
        if outcome.status:
            response = {"status_code": outcome.status, "request_id": outcome.request_id, "body": outcome.body}
        line = {
            "id": f"{self._batch}-{document.n}",
            "custom_id": document.custom_id,
            "response": response,
            "error": {"code": outcome.code, "message": outcome.message} if outcome.code else None,
        }
        # ASCII: half of a surrogate pair in an answer has no UTF-8.
        self._lines[document.n] = json.dumps(line).encode() + b"\n"

    # The end

    def save(self) -> None:
        """Replace the checkpoint, if there are new lines: a killed pod loses what came since. Raises BucketError."""
        with self._change:
            lines = list(self._lines.values())
        if len(lines) > self._saved:
            self._bucket.put(self.name("checkpoints"), b"".join(lines), again=True)
            self._saved = len(lines)

    def finish(self, *, may_fail: bool) -> int:
        """Create the part; returns the exit code. `may_fail`: whether Kubernetes starts the shard again."""
        later, lines = self._later, self._lines
        told = {"documents": self._documents, "failed": len(later) + self._errors}
        if self._are_most(told["failed"]):
            codes = Counter(outcome.code for outcome in later)
            self.log("failing", "WARNING", "most documents of a shard fail", **told, leftByCode=codes)
        if self._are_most(len(later)):
            wrong = all(outcome.status in SETUP for outcome in later)
            if wrong or may_fail:
                return WRONG_SETUP if wrong else SHARD_FAILED
        if len(lines) + len(later) != self._documents:
            raise RuntimeError(f"shard {self.number}: {len(lines)} lines for {self._documents} documents")
        if later:
            self.patiently(lambda: self._bucket.put(self.name("later", end=""), b""))
        part = b"".join(lines[n] for n in sorted(lines))
        self.patiently(lambda: self._bucket.put(self.name("parts"), part))
        self.patiently(lambda: self._bucket.delete(self.name("checkpoints")))
        self.log("done", "INFO", f"shard {self.number} has its part", **told)
        return 0

    def _are_most(self, documents: int) -> bool:
        return documents > 2 and 2 * documents > self._documents

    def log(self, step: str, severity: str, message: str, **told: Any) -> None:
        """A line of JSON. No document, no id of one and no answer is ever in it."""
        line = {"event": "batch", "step": step, "severity": severity, "message": message, "batch": self._batch}
        sys.stdout.write(f"{json.dumps({**line, 'shard': self.number, **told})}\n")
        sys.stdout.flush()


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Process one shard of a batch.")
    for name in ("--bucket", "--batch", "--endpoint", "--url", "--shards"):
        parser.add_argument(name, required=True)
    parser.add_argument("--index", type=int, required=True, help="of --shards: the one to process")
    parser.add_argument("--last", type=int, required=True, help="number of the last shard")
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument("--request-seconds", type=float, required=True)
    parser.add_argument("--retries", type=int, required=True, help="of an index, by Kubernetes")
    parser.add_argument("--until", type=float, required=True, help="epoch seconds when the batch's time is over")
    parser.add_argument("--storage-url", default=STORAGE_URL)
    parser.add_argument("--metadata-url", default=METADATA_URL)
    parser.add_argument("--speed", type=float, default=1.0, help="for tests: durations are divided by it")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Process one shard; returns the exit code."""
    given = _arguments(arguments)
    # A request to the bucket that is tried again is no event; what fails for long is.
    logging.getLogger("results_bucket").setLevel(logging.ERROR)
    shard = Shard(given, numbers_of(given.shards)[given.index])
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: shard.stopping.set())
    timer = threading.Timer(max(0.0, given.until - time.time()), shard.end_time)
    timer.daemon = True
    timer.start()
    threads: list[threading.Thread] = []
    try:
        if shard.exists():
            return 0
        if shard.is_last:
            shard.wait_for_others(given.last)
        if not shard.stopping.is_set():
            shard.load()
            threading.stack_size(STACK_BYTES)
            threads = shard.start()
            _watch(shard, threads, given)
        if not shard.stopping.is_set():
            return shard.finish(may_fail=int(os.environ.get("INDEX_FAILURES") or 0) < given.retries)
    except BucketError:
        pass  # Only after a stop.
    return _stop(shard, threads, given)


def _watch(shard: Shard, threads: list[threading.Thread], given: argparse.Namespace) -> None:
    """Until every document has ended, or a stop."""
    every = CHECKPOINT_SECONDS / given.speed
    next_save, next_word = time.monotonic() + every, 0.0
    while any(thread.is_alive() for thread in threads) and not shard.stopping.is_set():
        next(thread for thread in threads if thread.is_alive() or thread is threads[-1]).join(0.2)
        now = time.monotonic()
        if now >= next_save:
            next_save = now + every
            shard.patiently(shard.save)
        if now - shard.moved_at >= given.request_seconds / given.speed and now >= next_word:
            next_word = now + REPEAT_SECONDS / given.speed
            shard.log(
                "stalled", "WARNING", f"servers accept documents, and none ended for {now - shard.moved_at:.0f} s"
            )


def _stop(shard: Shard, threads: list[threading.Thread], given: argparse.Namespace) -> int:
    """Let requests in flight end, and store what there is."""
    until = time.monotonic() + DRAIN_SECONDS / given.speed
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    try:
        shard.save()
    except BucketError as error:
        shard.log("blind", "WARNING", f"the bucket fails: {error}")
    if not shard.is_over:
        return TERMINATED
    shard.log("limit", "WARNING", "the batch's time is over: its deadline, or the hours that maxUsd pays for")
    return TIME_OVER


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Open requests that are given up hold no process.
    os._exit(code)
