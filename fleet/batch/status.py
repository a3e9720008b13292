"""How far a batch is, and what it costs: one state for a live line, one outline for `fleet batch status`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Self

from facts.capacity import PROVISIONING_MINUTES
from facts.finding import Finding
from facts.texts import camel_case, plural
from fleet.batch.stored import CANCELLED, MAX_USD, Batch, Progress, StoredBatch, Terms, Where
from fleet.jobs.display import State
from fleet.report.outline import Findings, Next, Number, Outline, Tiles, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_duration, format_moment, format_number, format_usd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.report.outline import Tone

_MILLION: Final = 1_000_000
KEEP: Final = "keep"
"""`batch.onDone` of a stack that does not scale its servers by batches."""
SILENT_SECONDS: Final = 120.0
"""Source: the first client reports every 10 s (workloads/batch/pods/times.py); a batch silent for twelve times as long has no client."""
_START_SECONDS: Final = 60.0 * PROVISIONING_MINUTES
"""Until the first report of a run: a node for the client, and its image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A batch at one time."""

    batch: Batch
    terms: Terms | None
    progress: Progress | None
    summary: Mapping[str, Any] | None
    stopped: str | None
    """Why it was told to stop."""
    now: float

    @classmethod
    def of(cls, stored: StoredBatch, batch: Batch) -> Self:
        """Read it. Raises LiveError."""
        return cls(
            batch=batch,
            terms=stored.terms(),
            progress=stored.progress(),
            summary=stored.summary(),
            stopped=stored.stopped(),
            now=time.time(),
        )

    @property
    def phase(self) -> str:
        """`done`, `stopped`, `running`, `waiting` for a server, `silent` without a client, or `not started`."""
        if self.summary is not None:
            return "done"
        if self.terms is None:
            return "not started"
        if self.stopped is not None:
            return "stopped"
        reported = self.reported
        if reported is None:
            return "silent" if self.now - self.terms.began > SILENT_SECONDS + _START_SECONDS else "waiting"
        if self.now - reported.at > SILENT_SECONDS:
            return "silent"
        return reported.state if reported.state == "running" else "waiting"

    @property
    def reported(self) -> Progress | None:
        """Progress of this run: what an earlier one left says nothing of its servers."""
        began = 0.0 if self.terms is None else self.terms.began
        return self.progress if self.progress is not None and self.progress.at >= began else None

    @property
    def done(self) -> int:
        """Documents with a result."""
        if self.summary is not None:
            return self.batch.documents
        return 0 if self.progress is None else self.progress.done

    @property
    def usd(self) -> float:
        """Known dollars of all runs so far."""
        return (None if self.progress is None else self.progress.usd) or 0.0

    @property
    def usd_at_end(self) -> float | None:
        """Projected dollars of the whole batch; None while unknown."""
        progress, terms = self.progress, self.terms
        if self.summary is not None:
            return self.summary.get("usd")
        # At the present rate: without one, whatever the last report says.
        if self.phase != "running" or progress is None or terms is None:
            return None
        if progress.usd is None or progress.seconds_left is None or terms.usd_per_server_hour is None:
            return None
        per_hour = progress.servers * terms.usd_per_server_hour + terms.usd_per_hour_fixed
        idle = progress.servers * terms.usd_per_server_hour * terms.idle_seconds
        return progress.usd + (per_hour * progress.seconds_left + idle) / 3600

    @property
    def ends_at(self) -> float | None:
        """Projected end, epoch seconds."""
        progress = self.progress
        if self.phase != "running" or progress is None or progress.seconds_left is None:
            return None
        return progress.at + progress.seconds_left

    @property
    def words(self) -> str:
        """The phase as a person reads it."""
        return _STOPPED.get(self.stopped or "", "stopped") if self.phase == "stopped" else _WORDS[self.phase]


_STOPPED: Final[Mapping[str, str]] = {CANCELLED: "stopped by fleet batch cancel", MAX_USD: "stopped at its limit"}
_WORDS: Final[Mapping[str, str]] = {
    "done": "done",
    "running": "running",
    "waiting": "waiting for the first server",
    "silent": "no client reports",
    "not started": "not started",
}


def state_of(status: Status) -> State:
    """For a live line."""
    progress, terms = status.progress, status.terms
    told: list[str] = []
    if progress is not None and status.phase == "running":
        told.append(f"{plural(progress.servers, 'server')}, {progress.per_second:,.1f} a second")
        if progress.seconds_left is not None:
            told.append(f"{format_duration(progress.seconds_left)} left")
        if progress.failed:
            told.append(f"{progress.failed:,} failed")
    if progress is not None and progress.usd is not None and terms is not None:
        told.append(_usd(progress.usd, status.usd_at_end))
    return State(
        status.words,
        more=", ".join(told),
        done=None if progress is None else status.done,
        of=status.batch.documents,
        unit="documents",
    )


def outline(status: Status, where: Where, *, is_fetched: bool = False) -> Outline:
    """The whole state. `where`: of further commands; `is_fetched`: whether its results are here."""
    batch, found = status.batch, tuple(findings(status, where))
    tone: Tone = "bad" if found else "good" if status.phase == "done" else "strong"
    percent = f"{status.done / batch.documents:.1%}"
    return Outline(
        title=f"{batch.id}: {batch.name}",
        kind="batch",
        verdict=f"{status.words}: {status.done:,} of {plural(batch.documents, 'document')} ({percent})",
        tone=tone,
        head=some(Tiles(tuple(_numbers(status))), Findings(found) if found else None),
        body=tuple(_next(status, where, is_fetched=is_fetched)),
        footer=(
            "Dollars are estimated from ready servers and time, at the prices of the stack's bill: `docs/batch.md`.",
        ),
        data=document(status),
    )


def go_on(status: Status, where: Where) -> str:
    """The command with which a batch without clients goes on, under the terms that it had where they still allow it."""
    return " ".join((f"fleet batch run FILE {where}", *_other_terms(status)))


def _other_terms(status: Status) -> Iterator[str]:
    terms, left = status.terms, status.batch.documents - status.done
    if terms is None:
        return
    if status.stopped == MAX_USD and status.done:
        # At the cost of a document so far. With a number of servers it is not judged: it is no plan.
        idle = terms.servers * (terms.usd_per_server_hour or 0.0) * terms.idle_seconds / 3600
        most = max(status.usd * (1 + left / status.done) + idle, terms.max_usd or 0.0)
        yield f"--max-usd {ceil(most)}"
        if terms.on_done != KEEP:
            yield f"--servers {terms.servers}"
    if terms.deadline is not None and terms.deadline <= status.now:
        # As long as it had, in whole hours.
        yield f"--deadline {max(1, ceil((terms.deadline - terms.began) / 3600))}h"


def findings(status: Status, where: Where) -> Iterator[Finding]:
    """Why it stands still, or will be late, or ended early."""
    progress, terms, id_ = status.progress, status.terms, status.batch.id
    if status.phase == "silent" and terms is not None:
        last = terms.began if progress is None else max(progress.at, terms.began)
        yield Finding(
            id="batch-silent",
            subject=id_,
            severity="warning",
            found=f"no client has reported since {format_moment(last)}",
            allowed="a report every ten seconds",
            why="its Job has ended or was deleted, or its pods wait for a machine; nothing is lost",
            write=f"kubectl get pods --selector app=batch; if there are none, {go_on(status, where)}",
        )
    if status.phase == "stopped" and status.stopped == MAX_USD:
        limit = "its limit" if terms is None or terms.max_usd is None else format_usd(terms.max_usd)
        yield Finding(
            id="batch-limit",
            subject=id_,
            severity="warning",
            found=f"stopped at {limit}",
            why=f"{status.batch.documents - status.done:,} documents have no result yet; nothing is lost",
            write=go_on(status, where)
            if status.done
            else f"{go_on(status, where)}, which tells the --max-usd that it needs",
        )
    if (
        status.phase == "running"
        and progress is not None
        and not progress.per_second
        and status.done < status.batch.documents
    ):
        yield Finding(
            id="batch-stalled",
            subject=id_,
            severity="warning",
            found=f"no document ended lately, with {plural(progress.servers, 'ready server')}",
            why=progress.reason or "servers are starting, or every request fails",
            write="kubectl logs --selector app=batch --tail 20",
        )
    ends = status.ends_at
    if terms is not None and terms.deadline is not None and ends is not None and ends > terms.deadline:
        yield Finding(
            id="batch-late",
            subject=id_,
            severity="warning",
            found=f"ends about {format_moment(ends)}",
            allowed=f"until {format_moment(terms.deadline)}",
            write=f"fleet batch run FILE {where} {_in_time(status, terms.deadline, terms.servers)}",
        )


def _in_time(status: Status, deadline: float, servers: int) -> str:
    """Servers that keep the deadline at the present rate of each; another deadline where no number can."""
    left = (status.progress.seconds_left if status.progress is not None else None) or 0.0
    if deadline <= status.now or (status.terms is not None and status.terms.on_done == KEEP):
        return f"--deadline {ceil(left / 3600) or 1}h"
    return f"--servers {max(servers + 1, ceil(servers * left / (deadline - status.now)))}"


def _numbers(status: Status) -> Iterator[Number]:
    progress, terms, summary = status.progress, status.terms, status.summary
    if summary is not None:
        seconds = float(summary.get("seconds") or 0.0)
        yield Number(
            name="duration", now=format_duration(seconds), more=f"{summary.get('serverHours', 0):,.1f} server hours"
        )
        yield Number(
            name="tokens a second", now=format_number(float(summary.get("tokensPerSecond") or 0.0)), more="in and out"
        )
        if summary.get("usd") is not None:
            tokens = summary["inputTokens"] + summary["outputTokens"]
            # Of fewer, a start is what is paid.
            is_rate = tokens >= _MILLION
            million = f"{format_usd(_MILLION * summary['usd'] / tokens)} a million tokens" if is_rate else ""
            yield Number(name="the whole batch", now=format_usd(summary["usd"]), more=million)
        codes = ", ".join(f"{count:,} {code}" for code, count in (summary.get("failedByCode") or {}).items())
        yield Number(name="failed lines", now=f"{summary['failed']:,}", more=codes)
    elif progress is not None:
        if status.phase == "running":
            left = "unknown" if progress.seconds_left is None else format_duration(progress.seconds_left)
            yield Number(name="time left", now=left, more=f"{progress.per_second:,.1f} documents a second")
        if status.phase in ("running", "waiting"):
            servers = 0 if status.reported is None else status.reported.servers
            yield Number(name="servers", now=f"{servers:,}", more="" if terms is None else f"of {terms.servers} wanted")
        if progress.usd is not None:
            end = "" if status.usd_at_end is None else f"about {format_usd(status.usd_at_end)} at the end"
            limit = f"limit {format_usd(terms.max_usd)}" if terms is not None and terms.max_usd is not None else ""
            yield Number(name="so far", now=format_usd(progress.usd), more=", ".join(filter(None, (end, limit))))
        yield Number(name="failed lines", now=f"{progress.failed:,}", more="each has its error in its result")
    if terms is not None:
        yield Number(
            name="afterwards",
            now=format_usd(terms.usd_per_hour_fixed),
            more=_AFTERWARDS.get(terms.on_done, _AFTERWARDS["pause"]),
        )


_AFTERWARDS: Final[Mapping[str, str]] = {
    "pause": "an hour without servers, with weights and cluster",
    "destroy-hint": "an hour without servers, which `pulumi destroy` saves",
    "keep": "an hour, and the servers that stay",
}


def _next(status: Status, where: Where, *, is_fetched: bool) -> Iterator[Next]:
    id_ = status.batch.id
    if status.phase == "done":
        if not is_fetched:
            yield Next(f"fleet batch fetch {id_} {where}", "one line for each document")
        if status.terms is not None and status.terms.on_done == "destroy-hint":
            saved = format_usd(status.terms.usd_per_hour_fixed)
            yield Next(f"pulumi destroy --stack {where.stack}", f"after that; saves {saved} an hour")
        return
    if status.done:
        yield Next(f"fleet batch fetch {id_} {where} --partial", "the results so far")
    if status.phase in ("running", "waiting"):
        yield Next(f"fleet batch cancel {id_} {where}", "stops it; nothing is lost")
    else:
        yield Next(
            go_on(status, where), f"goes on where it was; FILE is {status.batch.name}, with the template that it had"
        )


def document(status: Status) -> dict[str, Any]:
    """As JSON."""
    found = asdict(status)
    return {
        "id": status.batch.id,
        "name": status.batch.name,
        "state": status.phase,
        "documents": status.batch.documents,
        "done": status.done,
        "usdAtEnd": status.usd_at_end,
        "endsAt": status.ends_at,
        "stopped": status.stopped,
        "terms": _plain(found["terms"]),
        "progress": _plain(found["progress"]),
        "summary": None if status.summary is None else dict(status.summary),
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
                columns=(*texts("batch", "file", "begun", "state"), *numbers("documents", "done", "USD")),
                rows=tuple(tuple(map(Cell, _row(one))) for one in found),
            ),
        ),
        data={"stack": stack, "batches": [document(one) for one in found]},
    )


def _row(status: Status) -> Iterator[str]:
    usd = (status.summary or {}).get("usd") if status.summary is not None else None
    usd = usd if usd is not None or status.progress is None else status.progress.usd
    yield status.batch.id
    yield status.batch.name
    yield format_moment(status.batch.created)
    yield status.words
    yield f"{status.batch.documents:,}"
    yield f"{status.done:,}"
    yield "" if usd is None else f"{usd:,.2f}"


def _usd(now: float, end: float | None) -> str:
    return format_usd(now) + (f" of about {format_usd(end)}" if end is not None else "")


def _plain(told: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if told is None else {camel_case(name): value for name, value in told.items()}
