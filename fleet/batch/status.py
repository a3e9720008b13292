"""How far a batch is, and what it costs: one state for a live line, one outline for `fleet batch status`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self

from facts.finding import Finding
from facts.texts import plural
from fleet.batch.stored import MAX_USD, Batch, Progress, StoredBatch, Terms
from fleet.jobs.display import State
from fleet.report.outline import Findings, Next, Number, Outline, Tiles, some
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_duration, format_number, format_usd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.report.outline import Tone

SILENT_SECONDS: Final = 120.0
"""Source: the first client reports every 10 s (workloads/batch/pods/times.py); a batch silent for twelve times as long has no client."""


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
        progress, began = self.progress, 0.0 if self.terms is None else self.terms.began
        if self.terms is None:
            return "not started"
        if self.stopped is not None:
            return "stopped"
        # What an earlier run left says nothing of this one.
        at = began if progress is None else max(progress.at, began)
        if self.now - at > SILENT_SECONDS:
            return "silent"
        if progress is None or progress.at < began or progress.state not in ("waiting", "running"):
            return "waiting"
        return progress.state

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
        if self.summary is not None or progress is None or terms is None:
            return None if self.summary is None else self.summary.get("usd")
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


_WORDS: Final[Mapping[str, str]] = {
    "done": "done",
    "stopped": "stopped",
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
        _WORDS[status.phase],
        more=", ".join(told),
        done=None if progress is None else status.done,
        of=status.batch.documents,
        unit="documents",
    )


def outline(status: Status, stack: str, *, is_fetched: bool = False) -> Outline:
    """The whole state. `is_fetched`: whether its results are here."""
    batch, found = status.batch, tuple(findings(status, stack))
    tone: Tone = "bad" if found else "good" if status.phase == "done" else "strong"
    percent = f"{status.done / batch.documents:.1%}"
    return Outline(
        title=f"{batch.id}: {batch.name}",
        kind="batch",
        verdict=f"{_WORDS[status.phase]}: {status.done:,} of {plural(batch.documents, 'document')} ({percent})",
        tone=tone,
        head=some(Tiles(tuple(_numbers(status))), Findings(found) if found else None),
        body=tuple(_next(status, stack, is_fetched=is_fetched)),
        footer=(
            "Dollars are estimated from ready servers and time, at the prices of the stack's bill: `docs/batch.md`.",
        ),
        data=document(status),
    )


def findings(status: Status, stack: str) -> Iterator[Finding]:
    """Why it stands still, or will be late, or ended early."""
    progress, terms, id_ = status.progress, status.terms, status.batch.id
    again = f"fleet batch run FILE --stack {stack}"
    if status.phase == "silent" and terms is not None:
        last = terms.began if progress is None else max(progress.at, terms.began)
        yield Finding(
            id="batch-silent",
            subject=id_,
            severity="warning",
            found=f"no client has reported since {_moment(last)}",
            allowed="a report every ten seconds",
            why="its Job has ended or was deleted, or its pods wait for a machine; nothing is lost",
            write=f"kubectl get pods --selector app=batch; then {again} goes on",
        )
    if status.phase == "stopped" and status.stopped == MAX_USD:
        limit = "its limit" if terms is None or terms.max_usd is None else format_usd(terms.max_usd)
        yield Finding(
            id="batch-limit",
            subject=id_,
            severity="warning",
            found=f"stopped at {limit}",
            why=f"{status.batch.documents - status.done:,} documents have no result yet; nothing is lost",
            write=f"{again} --max-usd with a larger amount goes on",
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
            found=f"ends about {_moment(ends)}",
            allowed=f"until {_moment(terms.deadline)}",
            write=f"{again} --servers with more than {terms.servers}: the running batch gets them",
        )


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
            million = f"{format_usd(1e6 * summary['usd'] / tokens)} a million tokens" if tokens else ""
            yield Number(name="the whole batch", now=format_usd(summary["usd"]), more=million)
        codes = ", ".join(f"{count:,} {code}" for code, count in (summary.get("failedByCode") or {}).items())
        yield Number(name="failed lines", now=f"{summary['failed']:,}", more=codes)
    elif progress is not None:
        if status.phase == "running":
            left = "unknown" if progress.seconds_left is None else format_duration(progress.seconds_left)
            yield Number(name="time left", now=left, more=f"{progress.per_second:,.1f} documents a second")
        wanted = "" if terms is None else f"of {terms.servers} wanted"
        yield Number(name="servers", now=f"{progress.servers:,}", more=wanted)
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


def _next(status: Status, stack: str, *, is_fetched: bool) -> Iterator[Next]:
    id_ = status.batch.id
    if status.phase == "done":
        if not is_fetched:
            yield Next(f"fleet batch fetch {id_} --stack {stack}", "one line for each document")
        if status.terms is not None and status.terms.on_done == "destroy-hint":
            saved = format_usd(status.terms.usd_per_hour_fixed)
            yield Next(f"pulumi destroy --stack {stack}", f"after that; saves {saved} an hour")
        return
    yield Next(f"fleet batch fetch {id_} --stack {stack} --partial", "the results so far")
    if status.phase in ("running", "waiting"):
        yield Next(f"fleet batch cancel {id_} --stack {stack}", "stops it; nothing is lost")


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
    yield _moment(status.batch.created)
    yield _WORDS[status.phase]
    yield f"{status.batch.documents:,}"
    yield f"{status.done:,}"
    yield "" if usd is None else f"{usd:,.2f}"


def _usd(now: float, end: float | None) -> str:
    return format_usd(now) + (f" of about {format_usd(end)}" if end is not None else "")


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _plain(told: dict[str, Any] | None) -> dict[str, Any] | None:
    if told is None:
        return None
    camel = {}
    for name, value in told.items():
        first, *rest = name.split("_")
        camel[first + "".join(word.capitalize() for word in rest)] = value
    return camel
