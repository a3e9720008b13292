"""How far a batch is: what its Job says, in shards, and what its runs can have cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Self

from facts.finding import Finding
from facts.texts import plural
from fleet.batch.stored import Batch, Run, StoredBatch, Where
from fleet.jobs.display import State
from fleet.jobs.job import ended
from fleet.report.outline import Findings, Next, Number, Outline, Tiles, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_duration, format_moment, format_usd
from workloads.batch.job import BATCH_LABEL
from workloads.batch.pods.process_shard import numbers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.clients.kubectl import Manifest
    from fleet.report.outline import Tone

_NEAR_SECONDS: Final = 60.0
"""A Job that ended this close to its run's end, or later, ended for it. Pods look at their own clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A batch at one time."""

    batch: Batch
    runs: tuple[Run, ...]
    job: Manifest | None
    """None: no run yet, or it is gone."""
    parts: int
    """Shards with a part."""
    now: float

    @classmethod
    def of(cls, stored: StoredBatch, batch: Batch, job: Manifest | None) -> Self:
        """Read it, and note the end of a run whose Job has ended. Raises LiveError."""
        if job is not None and (end := end_of(job)) is not None:
            stored.end_run(end)
        return cls(batch=batch, runs=stored.runs(), job=job, parts=len(stored.parts()), now=time.time())

    @property
    def run(self) -> Run | None:
        """The last one."""
        return self.runs[-1] if self.runs else None

    @property
    def phase(self) -> str:
        """`done`, `running`, `waiting` for a pod, `suspended`, `limit` (its time is over), `failed`, `stopped` without a Job, or
        `not started`.
        """
        if self.parts == self.batch.shards:
            return "done"
        if self.run is None:
            return "not started"
        if self.job is None:
            return "stopped"
        end = end_of(self.job)
        if end is not None:
            return "limit" if end >= self.run.until - _NEAR_SECONDS else "failed"
        if self.job["spec"].get("suspend"):
            return "suspended"
        return "running" if self.job.get("status", {}).get("ready") else "waiting"

    @property
    def is_over(self) -> bool:
        """Whether its run's time is over: it has ended for it, or was suspended until then."""
        return self.phase == "limit" or (
            self.phase == "suspended" and self.run is not None and self.run.until <= self.now
        )

    @property
    def done(self) -> int:
        """Shards that are done: of a Job, what it says itself."""
        if self.job is None:
            return self.parts
        of_run: int = self.job["spec"]["completions"]
        return max(self.parts, self.batch.shards - of_run + self._of_run)

    @property
    def _of_run(self) -> int:
        """Shards of the present run."""
        told = {} if self.job is None else self.job.get("status", {})
        return len(numbers_of(told.get("completedIndexes") or ""))

    @property
    def usd(self) -> float:
        """What all runs cost at most so far."""
        return sum(run.usd(self.now) for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """At the run's mean rate so far; None while unknown."""
        if self.phase != "running" or self.run is None or not self._of_run:
            return None
        return (self.now - self.run.began) * (self.batch.shards - self.done) / self._of_run

    @property
    def words(self) -> str:
        """The phase as a person reads it."""
        return _WORDS[self.phase]


_WORDS: Final[Mapping[str, str]] = {
    "done": "done",
    "running": "running",
    "waiting": "waiting for the first pod",
    "suspended": "suspended",
    "limit": "stopped: its time is over",
    "failed": "failed",
    "stopped": "stopped",
    "not started": "not started",
}


def end_of(job: Manifest) -> float | None:
    """When a Job ended, epoch seconds; None while it runs."""
    if ended(job) is None:
        return None
    moments = [one.get("lastTransitionTime") for one in job["status"]["conditions"]]
    return max((datetime.fromisoformat(one).timestamp() for one in moments if one), default=time.time())


def state_of(status: Status) -> State:
    """For a live line."""
    told: list[str] = []
    if status.seconds_left is not None:
        told.append(f"{format_duration(status.seconds_left)} left")
    if status.run is not None and status.run.usd_per_hour is not None:
        told.append(f"at most {format_usd(status.usd)}")
    return State(status.words, more=", ".join(told), done=status.done, of=status.batch.shards, unit="shards")


def outline(status: Status, where: Where) -> Outline:
    """The whole state. `where`: of further commands."""
    batch, found = status.batch, tuple(findings(status, where))
    tone: Tone = "bad" if found else "good" if status.phase == "done" else "strong"
    return Outline(
        title=f"{batch.id}: {batch.name}, {plural(batch.documents, 'document')}",
        kind="batch",
        verdict=f"{status.words}: {status.done:,} of {batch.shards:,} shards ({status.done / batch.shards:.1%})",
        tone=tone,
        head=some(Tiles(tuple(_numbers(status))), Findings(found) if found else None),
        body=tuple(_next(status, where)),
        footer=(
            "Dollars are an upper bound: all servers of a run from its begin, at the prices of the stack's bill: `docs/batch.md`.",
        ),
        data=document(status),
    )


def go_on(status: Status, where: Where) -> str:
    """The command with which a batch without a running Job goes on, under limits that allow it."""
    words, run, left = [f"fleet batch run FILE {where}"], status.run, status.batch.shards - status.done
    if run is not None and status.is_over and run.max_usd is not None and status.done:
        # At the cost of a shard so far.
        words.append(f"--max-usd {ceil(max(status.usd * (1 + left / status.done), status.usd + run.idle_usd))}")
    if run is not None and run.deadline is not None and run.deadline <= status.now:
        # As long as it had, in whole hours.
        words.append(f"--deadline {max(1, ceil((run.deadline - run.began) / 3600))}h")
    return " ".join(words)


def findings(status: Status, where: Where) -> Iterator[Finding]:
    """Why it ended early, or will."""
    id_, run, left = status.batch.id, status.run, status.seconds_left
    if status.phase == "failed" and status.job is not None:
        yield Finding(
            id="batch-failed",
            subject=id_,
            severity="warning",
            found=ended(status.job) or "",
            why="a shard failed six times, or the key, model or route is wrong; nothing is lost",
            write=f"{_kubectl(status.job)} logs --selector {BATCH_LABEL}={id_} --tail 20; then {go_on(status, where)}",
        )
    if status.phase == "limit" and run is not None:
        yield Finding(
            id="batch-limit",
            subject=id_,
            severity="warning",
            found=f"stopped at {format_moment(run.until)}",
            why="its deadline, or the hours that its maxUsd pays for, are over; nothing is lost",
            write=go_on(status, where),
        )
    if status.phase == "suspended" and status.job is not None:
        resume = f'{_kubectl(status.job)} patch job {status.job["metadata"]["name"]} --patch \'{{"spec": {{"suspend": false}}}}\''
        # Resumed after its time, its pods would bring servers and end at once.
        yield Finding(
            id="batch-suspended",
            subject=id_,
            severity="warning",
            found="its Job is suspended",
            why="somebody set spec.suspend; its deadline does not wait",
            write=f"fleet batch cancel {id_} {where}, then {go_on(status, where)}" if status.is_over else resume,
        )
    if left is not None and run is not None and status.now + left > run.until:
        yield Finding(
            id="batch-late",
            subject=id_,
            severity="warning",
            found=f"ends about {format_moment(status.now + left)}",
            allowed=f"until {format_moment(run.until)}, when it stops",
            write=f"fleet batch cancel {id_} {where}, then {go_on(status, where)} --servers {run.servers + 1}",
        )


def _kubectl(job: Manifest) -> str:
    """The user's own has another namespace."""
    return f"kubectl --namespace {job['metadata']['namespace']}"


def _numbers(status: Status) -> Iterator[Number]:
    run, job = status.run, status.job
    if status.seconds_left is not None:
        yield Number(name="time left", now=format_duration(status.seconds_left))
    if job is not None and run is not None and status.phase in ("running", "waiting"):
        told = job.get("status", {})
        more = f"{told.get('ready') or 0:,} of them ready, for {plural(run.servers, 'server')}"
        yield Number(name="pods", now=f"{told.get('active') or 0:,}", more=more)
        yield Number(name="stops at", now=format_moment(run.until))
    if run is not None and run.usd_per_hour is not None:
        limit = "" if run.max_usd is None else f"limit {format_usd(run.max_usd)}"
        yield Number(name="at most", now=format_usd(status.usd), more=limit)


def _next(status: Status, where: Where) -> Iterator[Next]:
    id_ = status.batch.id
    if status.phase == "done":
        yield Next(f"fleet batch fetch {id_} {where}", "one line for each document")
        return
    if status.done:
        yield Next(f"fleet batch fetch {id_} {where} --partial", "the results so far")
    if status.phase in ("running", "waiting", "suspended"):
        yield Next(f"fleet batch cancel {id_} {where}", "stops it; nothing is lost")
    else:
        yield Next(
            go_on(status, where), f"goes on where it was; FILE is {status.batch.name}, with the template that it had"
        )


def document(status: Status) -> dict[str, Any]:
    """As JSON."""
    return {
        "id": status.batch.id,
        "name": status.batch.name,
        "state": status.phase,
        "documents": status.batch.documents,
        "shards": status.batch.shards,
        "done": status.done,
        "secondsLeft": status.seconds_left,
        "usdAtMost": status.usd,
        "runs": [run.plain() for run in status.runs],
    }


def overview(found: Sequence[Status], stack: str) -> Outline:
    """All batches of a stack."""
    return Outline(
        title=stack,
        kind="batches",
        verdict=plural(len(found), "batch", "batches"),
        body=(
            Table(
                id="batches",
                caption="Newest first",
                columns=(
                    *texts("batch", "file", "begun", "state"),
                    *numbers("documents", "shards", "done", "USD at most"),
                ),
                rows=tuple(tuple(map(Cell, _row(one))) for one in found),
            ),
        ),
        data={"stack": stack, "batches": [document(one) for one in found]},
    )


def _row(status: Status) -> Iterator[str]:
    yield status.batch.id
    yield status.batch.name
    yield format_moment(status.batch.created)
    yield status.words
    yield f"{status.batch.documents:,}"
    yield f"{status.batch.shards:,}"
    yield f"{status.done:,}"
    yield f"{status.usd:,.2f}"
