"""`fleet batch run`: a file of documents, processed to its end."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from facts.texts import plural
from fleet.cli.batch.fetch import bring
from fleet.cli.batch.reached import DEFAULT_FOLDER, Out, Reached, reach
from fleet.cli.batch.reading import Read
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.interactive import code_of, confirm, terminal
from fleet.cli.options import Deadline, Headroom, Live, OneStack, Yes
from fleet.doctor.packages import require_batch_packages
from fleet.plan.asked import DEFAULT_HEADROOM, Asked

if TYPE_CHECKING:
    from fleet.batch.launch import Started
    from fleet.batch.planning import Load, OfStack
    from fleet.batch.shards import Shards
    from fleet.batch.sizing import Limits, Sized
    from fleet.batch.status import Status
    from fleet.batch.stored import Batch, StoredBatch
    from fleet.clients.kubectl import Kubectl, Manifest
    from fleet.jobs.watching import Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run must keep."""

    deadline: Deadline = None
    max_usd: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=0.01,
            help="Stop at this cost of all its runs. Default: as before, else batch.maxUsd of the stack.",
        ),
    ] = None
    servers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Servers, instead of what deadline and ceiling need.")
    ] = None
    headroom: Headroom = DEFAULT_HEADROOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How a run goes on, and where its results go."""

    out: Out = None
    detach: Annotated[
        bool, typer.Option("--detach", help="Start it and exit; `fleet batch status` and `fetch` go on from there.")
    ] = False
    yes: Yes = False


@with_fields
def run(
    of: OneStack,
    read: Read,
    wanted: Wanted,
    live: Live,
    wishes: Wishes,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="JSONL, or gs://BUCKET/OBJECT. Default: batch.input of the stack."),
    ] = None,
) -> int:
    """Check each line, plan the servers, show hours and dollars, ask for confirmation, then process the file to its end.

    The same file again goes on where it was, with the limit, deadline and servers that it had. Ctrl-C leaves it running. Exits with 1
    for bad lines, failed lines or a reached limit.
    """
    require_batch_packages()
    at = reach(of, live.outputs)
    from fleet.batch.planning import OfStack
    from fleet.jobs.session import require_the_same_stack

    section = at.settings.batch
    given = file or section.input
    if given is None:
        raise CommandError(f"FILE is missing: pass it, or write batch.input in Pulumi.{at.stack}.yaml")
    require_the_same_stack(
        at.settings, at.outputs, "Lines would be checked for another model than the one that answers"
    )
    _require_in_time(wanted.deadline)
    asked = Asked(
        headroom=wanted.headroom,
        # A stack that is up has both.
        starts_from="weights",
    )
    fleets = OfStack(at.stack, at.settings, asked)
    prepared = _prepare(at, given, read, fleets)
    if prepared is None:
        return FINDINGS
    if prepared.status is not None and prepared.status.phase == "done":
        sys.stdout.write(f"Every document of this file has its result already, as batch {prepared.shards.id}.\n")
        return _finish(at, prepared, wishes)
    return _process(at, fleets, prepared, wanted, live, wishes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A file that was read, and what its batch already is."""

    name: str
    load: Load
    shards: Shards
    stored: StoredBatch
    status: Status | None
    """Of an earlier run of the same file."""

    @property
    def left(self) -> Load:
        """The documents without a result."""
        done = 0 if self.status is None else self.status.done
        return replace(self.load, scan=replace(self.load.scan, documents=max(1, self.load.scan.documents - done)))


def _require_in_time(deadline: str | None) -> None:
    """Raises CommandError for a deadline that is none, or beyond the Job's own end: before anything is read."""
    from fleet.plan.question.goals import parse_hours
    from settings.sections.batch import MOST_DAYS

    try:
        hours = 0.0 if deadline is None else parse_hours(deadline)
    except ValueError as error:
        raise CommandError(f"--deadline: {error}") from None
    if hours > 24 * MOST_DAYS:
        raise CommandError(
            f"--deadline {deadline}: up to {MOST_DAYS}d; a batch's Job ends then, and the same command goes on where it was"
        )


def _prepare(at: Reached, given: str, read: Read, fleets: OfStack) -> _Prepared | None:
    """Read the whole file. None, and what is wrong printed, for a bad one."""
    from fleet.batch import report
    from fleet.batch.inputs import local_file
    from fleet.batch.order import Order
    from fleet.batch.planning import load_of
    from fleet.batch.scan import scan
    from fleet.batch.shards import Shards
    from fleet.batch.status import Status
    from fleet.batch.stored import StoredBatch
    from fleet.batch.tokenizer_file import tokenizer_file
    from fleet.batch.tokens import Counter
    from fleet.jobs.display import State, shown

    live, width = terminal()
    model = at.settings.serving.served_model_name
    with shown(sys.stdout, live=live, width=width) as display:

        def brought(done: int, of: int) -> None:
            display.state(State("downloading", given, done=done, of=of, unit="bytes"))

        path = local_file(given, DEFAULT_FOLDER / "input", at.login, brought)
        form, id_key = read.form(at.settings)
        counter = Counter(*tokenizer_file(read.tokenizer, fleets.model))
        order = Order()
        display.state(State("checking each line", given))
        found = scan(
            path, form, counter, fleets.context, id_key=id_key, sample=read.sample, seed=read.seed, seen=order.add
        )
        if not found.bad:
            display.state(State("cutting it into shards"))
            load = load_of(found, read.output_tokens)
            shards = Shards(path, form, order, url=found.url, model=model)
            stored = StoredBatch(at.bucket, shards.id)
            known = stored.batch()
            status = None if known is None else Status.of(stored, known)
            return _Prepared(name=path.name, load=load, shards=shards, stored=stored, status=status)
    show(report.refused(path, found, kind="batch run", otherwise="nothing was sent"), "text")
    return None


def _process(at: Reached, fleets: OfStack, prepared: _Prepared, wanted: Wanted, live: Live, wishes: Wishes) -> int:
    """Plan, confirm, send, start, and wait."""
    from fleet.batch.launch import own_job, require_prepared, start
    from fleet.batch.sizing import Limits, size
    from fleet.jobs.session import cluster_of

    id_, before = prepared.shards.id, None if prepared.status is None else prepared.status.terms
    with cluster_of(at.outputs, at.settings, live.kubeconfig, live.context) as kubectl:
        require_prepared(kubectl, at.settings)

        def running() -> tuple[Manifest | None, bool]:
            """The batch's Job, and whether its clients work."""
            job = own_job(kubectl, at.where, id_)
            return job, job is not None and prepared.stored.stopped() is None

        job, works = running()
        limits = Limits.of(
            deadline=wanted.deadline,
            max_usd=wanted.max_usd,
            servers=wanted.servers,
            section=at.settings.batch,
            before=before,
            running=job["spec"]["parallelism"] if job is not None and works else None,
            spent=0.0 if prepared.status is None else prepared.status.usd,
            now=time.time(),
        )
        sized = size(fleets, prepared.left, at.settings, limits)
        _agree(at, prepared, sized, limits, yes=wishes.yes)
        batch = _send(at, prepared)
        if works and not running()[1]:
            sys.stdout.write(f"Batch {id_} has ended meanwhile, and nothing was started.\n")
            return _finish(at, prepared, wishes)
        if job is not None and not works:
            _wait_until_stopped(kubectl, job["metadata"]["name"])
        # To a client that begins, nothing ran between the last report and the begin of a run.
        began = before.began if works and before is not None else time.time()
        prepared.stored.go_on(sized.terms(at.settings, limits, began=began), again=not works)
        started = start(kubectl, at.settings, at.outputs, id_, sized.servers)
        sys.stdout.write(f"{_STARTED[started.done].format(id_, plural(sized.servers, 'server'))}\n")
        if wishes.detach:
            sys.stdout.write(_what_goes_on(at, id_))
            return CLEAN
        try:
            over = _watch(kubectl, prepared.stored, batch, started, f"fleet batch fetch {id_} {at.where}")
        except (KeyboardInterrupt, SystemExit) as stop:
            sys.stdout.write(f"\nStopped watching.\n{_what_goes_on(at, id_)}")
            return code_of(stop)
        if over.failed:
            raise CommandError(_failed(kubectl, over, id_, at))
    return _finish(at, prepared, wishes)


_STARTED: Final[Mapping[str, str]] = {
    "started": "Started batch {0} with {1}.",
    "resized": "Batch {0} was running and now has {1}.",
    "unchanged": "Batch {0} is running with {1} already.",
}


def _agree(at: Reached, prepared: _Prepared, sized: Sized, limits: Limits, *, yes: bool) -> None:
    """Print hours and dollars and ask for confirmation on a terminal. Raises CommandError."""
    load, shards, status = prepared.load, prepared.shards, prepared.status
    size = sum(slice_.size for slice_ in shards.slices) / 1e6
    words = [
        f"{prepared.name}: {plural(shards.documents, 'document')}, {load.mean_input:,} tokens in and {load.output_tokens:,} out, "
        f"{size:,.1f} MB in {plural(len(shards.slices), 'shard')}: batch {shards.id}."
    ]
    if status is not None and status.done:
        words.append(f"{status.done:,} have a result already; the others:")
    words.append(sized.text(at.settings))
    width = min(100, terminal()[1])
    sys.stdout.write("\n".join((textwrap.fill(" ".join(words), width), *limits.text())) + "\n")
    if not yes:
        confirm(f"Process it on stack {at.stack} now?", "a batch")


def _send(at: Reached, prepared: _Prepared) -> Batch:
    from fleet.batch.stored import upload
    from fleet.jobs.display import State, shown

    live, width = terminal()
    with shown(sys.stdout, live=live, width=width) as display:

        def sent(done: int, of: int) -> None:
            display.state(State("sending documents", f"gs://{at.bucket.name}", done=done, of=of, unit="bytes"))

        display.state(State("sending documents", f"gs://{at.bucket.name}"))
        return upload(at.bucket, prepared.shards, prepared.name, sent)


def _wait_until_stopped(kubectl: Kubectl, job: str) -> None:
    """A Job that was told to stop ends first: its clients do not go on."""
    from fleet.batch.launch import wait_until_stopped
    from fleet.jobs.display import State, shown

    live, width = terminal()
    with shown(sys.stdout, live=live, width=width) as display:
        wait_until_stopped(
            kubectl, job, lambda left: display.state(State("waiting for stopped clients", plural(left, "client")))
        )
    kubectl.delete("job", job)


def _watch(kubectl: Kubectl, stored: StoredBatch, batch: Batch, started: Started, later: str) -> Ended:
    """Wait until the Job has ended."""
    from fleet.batch.status import Status, state_of
    from fleet.jobs.cluster_view import ClusterView
    from fleet.jobs.display import State, shown
    from fleet.jobs.watching import watch

    def state(view: ClusterView) -> State:
        if view.stage not in ("running", "ended"):
            return State("waiting for client pods", view.why)
        return state_of(Status.of(stored, batch))

    live, width = terminal()
    with shown(sys.stdout, live=live, width=width) as display:
        return watch(kubectl, started.job, state, display.state, later=later)


def _failed(kubectl: Kubectl, over: Ended, id_: str, at: Reached) -> str:
    """Message for a failed Job, with its pods' last log lines."""
    from fleet.jobs.cluster_view import failure_lines

    lines = [f"the clients of batch {id_} failed: {over.failed}", *failure_lines(kubectl, over.failures)]
    lines.append(f"Nothing is lost: fleet batch run FILE {at.where} goes on where it was")
    return "\n".join(lines)


def _finish(at: Reached, prepared: _Prepared, wishes: Wishes) -> int:
    """Show how it ended, and bring the results of one that is done."""
    from fleet.batch.status import Status, outline
    from fleet.clients.errors import LiveError

    id_ = prepared.shards.id
    later = f"fleet batch fetch {id_} {at.where}"
    batch = prepared.stored.batch()
    assert batch is not None
    status = Status.of(prepared.stored, batch)
    if status.phase != "done" or wishes.detach:
        show(outline(status, at.where), "text")
        return CLEAN if status.phase == "done" else FINDINGS
    try:
        return bring(prepared.stored, batch, wishes.out, at.where)
    except (KeyboardInterrupt, SystemExit) as stop:
        sys.stdout.write(f"\nThe batch is done. Its results are in the bucket: {later}\n")
        return code_of(stop)
    except LiveError as error:
        raise CommandError(f"{error}\nThe batch is done. Its results are in the bucket: {later}") from None


def _what_goes_on(at: Reached, id_: str) -> str:
    rest = f"{id_} {at.where}"
    return (
        "The batch goes on in the cluster, to its end.\n"
        f"  watch it:           fleet batch status {rest} --watch\n"
        f"  bring its results:  fleet batch fetch {rest}\n"
        f"  stop it:            fleet batch cancel {rest}\n"
    )
