"""The keeper, the client with index 0: counts documents and dollars, stops at the limit, and writes progress and summary.

Its memory is progress.json, replaced by generation: a keeper that comes after another goes on from it, and of two at a time one adopts
what the other wrote. Each result is counted once, by a bit of its own in that memory. The dollars are the batch's own estimate; the
spending guard counts machines.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .log import Log
from .shards import PARTS, RESULTS, Tally, result_name, tally_of, tally_of_part
from .store import Store
from .times import Times

FAILED_SHARE, FEWEST_FAILED = 0.05, 20
"""Of the documents that ended, from which errors are told, and their least number. Assumed: lines were checked before a server came, so
more than a few bad answers are the servers' or the batch's own."""
BATCH, PROGRESS, STOP, SUMMARY, TERMS = "batch.json", "progress.json", "stop.json", "summary.json", "terms.json"


@dataclass(frozen=True)
class Batch:
    """batch.json."""

    id: str
    url: str
    documents: int
    counts: tuple[int, ...]
    """Documents of each shard."""

    @classmethod
    def of(cls, content: bytes) -> Batch:
        """Read the object."""
        fields_ = json.loads(content)
        return cls(fields_["id"], fields_["url"], fields_["documents"], tuple(fields_["counts"]))


@dataclass(frozen=True)
class Terms:
    """terms.json: of one run of the batch."""

    began: float = 0.0
    servers: int = 1
    deadline: float | None = None
    max_usd: float | None = None
    usd_per_server_hour: float | None = None
    usd_per_hour_fixed: float = 0.0
    start_seconds: float = 0.0
    """Of a server, from its machine to its first answer: paid, and not seen."""
    idle_seconds: float = 0.0
    """From the last request to the end of a server: paid after the end."""
    request_seconds: float = 3_600.0

    @classmethod
    def of(cls, content: bytes) -> Terms:
        """Read the object."""
        given = json.loads(content)
        return cls(
            began=given["began"],
            servers=given["servers"],
            deadline=given.get("deadline"),
            max_usd=given.get("maxUsd"),
            usd_per_server_hour=given.get("usdPerServerHour"),
            usd_per_hour_fixed=given.get("usdPerHourFixed") or 0.0,
            start_seconds=given.get("startSeconds") or 0.0,
            idle_seconds=given.get("idleSeconds") or 0.0,
            request_seconds=given.get("requestSeconds") or 3_600.0,
        )


@dataclass
class Memory:
    """What a keeper hands on to the next: a part of progress.json."""

    at: float = 0.0
    """The bucket's clock, epoch seconds, to which dollars are counted."""
    usd: float = 0.0
    servers: int = 0
    server_seconds: float = 0.0
    seconds: float = 0.0
    """Time of all runs."""
    counted: int = 0
    """A bit for each shard whose result is counted."""
    total: Tally = field(default_factory=Tally)
    """Of the counted results."""
    codes: dict[str, int] = field(default_factory=dict)
    """Failed documents by code."""
    state: str = ""
    since: float = 0.0
    """When this state began."""

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "counted": f"{self.counted:x}"}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Memory:
        """From JSON."""
        known = {one.name: plain[one.name] for one in fields(cls)}
        return cls(**{**known, "counted": int(plain["counted"], 16), "total": Tally(**plain["total"])})


class Keeper:
    """One thread's. `turn` every few seconds, `end` once."""

    def __init__(self, store: Store, batch: Batch, terms: Terms, times: Times, log: Log, *, speed: float = 1.0) -> None:
        self._store, self._batch, self._terms, self._times, self._log = store, batch, terms, times, log
        self._speed = speed
        self._memory = Memory()
        self._generation: int | None = None
        """Of progress.json as this keeper knows it; None: unread."""
        self._known: frozenset[tuple[str, int]] | None = None
        self._rates: deque[tuple[float, int]] = deque()
        self._next_log = 0.0
        self._next_terms = time.monotonic() + times.terms
        self._moved_at, self._moved_with = time.monotonic(), -1
        self.reason = ""
        """Why the batch stops; empty while it goes on."""

    # A turn

    def turn(self, addresses: Collection[tuple[str, int]], *, reason: str, blockage: str) -> None:
        """Count, decide, tell. `reason`: why the batch was stopped; `blockage`: code of the last request that no server took.

        Raises BucketError; the next turn makes up for it.
        """
        self.reason = self.reason or reason
        self._follow_terms()
        if self._generation is None:
            self._adopt()
        results = {int(found.name.removeprefix(RESULTS)[:5]) for found in self._store.list(RESULTS)}
        parts = self._parts(results)
        self._count_results(results)
        self._count_dollars(frozenset(addresses))
        done = self._memory.total.documents + sum(tally.documents for tally in parts.values())
        self._set_state(len(results), len(addresses))
        shown = self._shown(done, parts, len(results))
        if not self._write(shown):
            return
        self._decide()
        self._tell(shown, blockage)

    def end(self) -> None:
        """Write the summary, once all results are counted. Raises BucketError."""
        memory = self._memory
        total = memory.total
        summary = {
            "documents": self._batch.documents,
            "succeeded": total.documents - total.failed,
            "failed": total.failed,
            "failedByCode": dict(sorted(memory.codes.items())),
            "inputTokens": total.input_tokens,
            "outputTokens": total.output_tokens,
            "seconds": round(memory.seconds, 1),
            "serverHours": round(memory.server_seconds / 3600, 4),
            "usd": self._usd(),
            "tokensPerSecond": round((total.input_tokens + total.output_tokens) / max(memory.seconds, 1.0), 1),
        }
        self._store.create(SUMMARY, json.dumps(summary, indent=2).encode() + b"\n")
        for name in [*self._store.list(PARTS), *self._store.list("leases/")]:
            self._store.delete(name.name)
        numbers = {key: summary[key] for key in ("documents", "failed", "usd", "seconds", "serverHours")}
        self._log.tell("done", f"{total.documents:,} documents, {total.failed:,} of them failed", **numbers)

    def _follow_terms(self) -> None:
        """Another deadline or limit may be given while a batch runs."""
        if time.monotonic() < self._next_terms:
            return
        self._next_terms = time.monotonic() + self._times.terms
        stored = self._store.read(TERMS)
        if stored is not None:
            self._terms = Terms.of(stored.content)

    # Count

    def _adopt(self) -> None:
        """Go on from what is stored."""
        stored = self._store.read(PROGRESS)
        self._generation = stored.generation if stored else 0
        if stored is None:
            return
        memory = Memory.of(json.loads(stored.content)["memory"])
        memory.usd = max(memory.usd, self._memory.usd)
        now = self._store.now
        if memory.state in ("stopped", "done"):
            memory.at = now  # Nothing ran since.
        else:
            # Where its clients ended without a word before this run, servers went after their idle time. `began` is a laptop's clock.
            memory.at = max(memory.at, min(self._terms.began, now) - self._terms.idle_seconds / self._speed)
        self._memory, self._known = memory, None

    def _count_results(self, results: Collection[int]) -> None:
        for shard in sorted(results):
            if self._memory.counted >> shard & 1:
                continue
            result = self._store.read(result_name(shard))
            if result is None:
                continue
            tally, codes = tally_of(result.content)
            self._memory.total.add(tally)
            for code, number in codes.items():
                self._memory.codes[code] = self._memory.codes.get(code, 0) + number
            self._memory.counted |= 1 << shard

    def _parts(self, results: Collection[int]) -> dict[int, Tally]:
        """Of the shards without a result."""
        parts: dict[int, Tally] = {}
        for found in self._store.list(PARTS):
            shard = int(found.name.removeprefix(PARTS)[:5])
            if shard not in results:
                parts.setdefault(shard, Tally()).add(tally_of_part(found.name))
        for shard, tally in parts.items():
            # Two holders may have stored the same document.
            tally.documents = min(tally.documents, self._batch.counts[shard])
        return parts

    def _count_dollars(self, addresses: frozenset[tuple[str, int]]) -> None:
        memory, terms = self._memory, self._terms
        now, servers = self._store.now, len(addresses)
        if not memory.at:
            memory.at = min(terms.began, now)
        elapsed = max(0.0, now - memory.at) * self._speed
        came = max(0, servers - memory.servers) if self._known is None else len(addresses - self._known)
        self._known = (self._known or frozenset()) | addresses
        # Both ends of an interval: a gap without a keeper is an upper bound.
        paid = max(servers, memory.servers) * elapsed + came * terms.start_seconds
        memory.server_seconds += paid
        memory.usd += paid * (terms.usd_per_server_hour or 0.0) / 3600 + elapsed * terms.usd_per_hour_fixed / 3600
        memory.seconds += elapsed
        memory.at, memory.servers = max(memory.at, now), servers

    def _usd(self) -> float | None:
        return None if self._terms.usd_per_server_hour is None else round(self._memory.usd, 4)

    # Decide

    def _set_state(self, results: int, servers: int) -> None:
        if results == len(self._batch.counts):
            state = "done"
        elif self.reason:
            state = "stopped"
        else:
            state = "running" if servers else "waiting"
        if state != self._memory.state:
            self._memory.state, self._memory.since = state, self._store.now

    def _decide(self) -> None:
        """Stop at the limit, with what the servers cost until they are gone in reserve."""
        memory, terms = self._memory, self._terms
        if terms.max_usd is None or terms.usd_per_server_hour is None or self.reason or memory.state == "done":
            return
        reserve = memory.servers * terms.idle_seconds * terms.usd_per_server_hour / 3600
        if memory.usd + reserve < terms.max_usd:
            return
        self.reason = "max-usd"
        self._store.create(STOP, json.dumps({"reason": self.reason, "at": round(self._store.now, 1)}).encode())
        message = f"stopped at ${memory.usd:,.2f} of ${terms.max_usd:,.2f}; a higher maxUsd continues it"
        self._log.tell("limit", message, usd=self._usd(), maxUsd=terms.max_usd)

    # Tell

    def _shown(self, done: int, parts: dict[int, Tally], results: int) -> dict[str, Any]:
        memory, total = self._memory, Tally()
        for tally in (memory.total, *parts.values()):
            total.add(tally)
        left = self._batch.documents - done
        rate = self._rate(done)
        return {
            "at": round(memory.at, 1),
            "documents": self._batch.documents,
            "done": done,
            "failed": total.failed,
            "inputTokens": total.input_tokens,
            "outputTokens": total.output_tokens,
            "perSecond": round(rate, 3),
            "servers": memory.servers,
            "usd": self._usd(),
            "secondsLeft": 0.0 if not left else round(left / rate, 1) if rate > 0 else None,
            "state": memory.state,
            "reason": self.reason,
            "shardsDone": results,
            "since": round(memory.since, 1),
            "memory": memory.plain(),
        }

    def _rate(self, done: int) -> float:
        """Documents a second over the last minutes."""
        now = time.monotonic()
        if not self._memory.servers:
            self._rates.clear()  # Waiting for servers is no rate of theirs.
        self._rates.append((now, done))
        while len(self._rates) > 2 and now - self._rates[1][0] > self._times.rate:
            self._rates.popleft()
        began, before = self._rates[0]
        return max(0.0, (done - before) / (now - began)) if now > began else 0.0

    def _write(self, shown: dict[str, Any]) -> bool:
        """Whether progress.json is written; otherwise another keeper's is adopted in the next turn."""
        content = json.dumps(shown).encode()
        generation = self._store.write(PROGRESS, content, self._generation)
        if generation is None:
            there = self._store.read(PROGRESS)
            if there is None or there.content != content:
                self._generation = None
                return False
            generation = there.generation
        self._generation = generation
        return True

    def _tell(self, shown: dict[str, Any], blockage: str) -> None:
        now, state = time.monotonic(), shown["state"]
        numbers = {
            key: shown[key] for key in ("documents", "done", "failed", "perSecond", "servers", "usd", "secondsLeft")
        }
        if shown["done"] != self._moved_with or not shown["servers"]:
            self._moved_at, self._moved_with = now, shown["done"]
        going = state in ("waiting", "running")
        if going and now >= self._next_log:
            self._next_log = now + self._times.log
            step, message = "progress", f"{shown['done']:,} of {shown['documents']:,} documents"
            if state == "waiting":
                step, message = "waiting", f"no server is ready; {message}"
            self._log.tell(step, message, **numbers)
        stalled = going and now - self._moved_at >= self._times.stalled
        why = f"; the last request: {blockage}" if blockage else ""
        self._log.tell_while(stalled, "stalled", f"servers are ready and no document ends{why}", **numbers)
        failed, codes = shown["failed"], self._memory.codes
        failing = going and failed >= FEWEST_FAILED and failed > FAILED_SHARE * shown["done"]
        most = f", most often {max(codes, key=lambda code: codes[code])}" if codes else ""
        message = f"documents end with errors: {failed:,} of {shown['done']:,}{most}"
        self._log.tell_while(failing, "failing", message, **numbers)
        deadline, left = self._terms.deadline, shown["secondsLeft"]
        end = self._store.now + (left or 0.0)
        late = going and deadline is not None and end > deadline
        numbers["lateSeconds"] = round(end - deadline) if late and deadline is not None else 0
        # A rate needs some minutes to be one.
        late_for = {"after": self._times.repeat, **numbers}
        self._log.tell_while(late, "late", "the batch ends after its deadline at this rate", **late_for)
