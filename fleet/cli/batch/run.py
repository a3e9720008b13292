"""`fleet batch run`: a file of documents, processed to its end."""

from __future__ import annotations

import sys
import textwrap
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

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
    from fleet.batch.planning import Load, OfStack
    from fleet.batch.shards import Shards
    from fleet.batch.sizing import Limits, Sized
    from fleet.batch.stored import Batch, StoredBatch
    from fleet.clients.kubectl import Kubectl
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

    The same file again goes on where it was, with the limit and deadline that it had; while its Job runs, it is watched. Ctrl-C leaves it
    running. Exits with 1 for bad lines, failed lines or a reached limit.
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
    if prepared.is_done:
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
    parts: tuple[int, ...]
    """Shards that have their part, of earlier runs."""

    @property
    def is_done(self) -> bool:
        """Whether every document has its result."""
        return len(self.parts) == len(self.shards.slices) + 1

    @property
    def left(self) -> Load:
        """The documents without a result."""
        slices = self.shards.slices
        done = sum(slices[shard].documents for shard in self.parts if shard < len(slices))
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
    from fleet.batch.planning import load_of
    from fleet.batch.shards import Places, Shards
    from fleet.batch.stored import StoredBatch
    from fleet.jobs.display import State, shown

    live, width = terminal()
    model = at.settings.serving.served_model_name
    with shown(sys.stdout, live=live, width=width) as display:

        def brought(done: int, of: int) -> None:
            display.state(State("downloading", given, done=done, of=of, unit="bytes"))

        path = local_file(given, DEFAULT_FOLDER / "input", at.login, brought)
        form, id_key = read.form(at.settings)
        places = Places()
        display.state(State("checking each line", given))
        found, _ = read.scan(path, form, id_key, fleets, places.add)
        if not found.bad:
            display.state(State("cutting it into shards"))
            load = load_of(found, read.output_tokens)
            shards = Shards(path, form, places, url=found.url, model=model)
            stored = StoredBatch(at.bucket, shards.id)
            return _Prepared(name=path.name, load=load, shards=shards, stored=stored, parts=stored.parts())
    show(report.refused(path, found, kind="batch run", otherwise="nothing was sent"), "text")
    return None


def _process(at: Reached, fleets: OfStack, prepared: _Prepared, wanted: Wanted, live: Live, wishes: Wishes) -> int:
    """Plan, confirm, send, start, and wait."""
    from fleet.batch.launch import own_job, remove, require_prepared, start
    from fleet.batch.sizing import Limits, size
    from fleet.batch.status import end_of
    from fleet.jobs.session import cluster_of

    stored, id_ = prepared.stored, prepared.shards.id
    with cluster_of(at.outputs, at.settings, live.kubeconfig, live.context) as kubectl:
        require_prepared(kubectl, at.settings)
        job = own_job(kubectl, at.where, id_)
        end = None if job is None else end_of(job)
        if job is not None and end is None:
            _require_no_limits(wanted, id_, at)
            sys.stdout.write(f"Batch {id_} is running already.\n")
            return _wait(at, kubectl, prepared, job["metadata"]["name"], wishes)
        if end is not None:
            stored.end_run(end)
        runs = stored.runs()
        limits = Limits.of(
            deadline=wanted.deadline,
            max_usd=wanted.max_usd,
            servers=wanted.servers,
            section=at.settings.batch,
            runs=runs,
            now=time.time(),
        )
        sized = size(fleets, prepared.left, at.settings, limits)
        _agree(at, prepared, sized, limits, sized.run(at.settings, limits).until, yes=wishes.yes)
        batch = _send(at, prepared)
        # It begins now: a question and a large file take time, in which nothing was paid.
        next_run = sized.run(at.settings, replace(limits, now=time.time()))
        if not stored.write_runs([*runs, next_run], instead_of=runs):
            raise CommandError(
                f"batch {id_} was started or stopped by another command meanwhile: fleet batch status {id_} {at.where}"
            )
        try:
            if job is not None:
                # It has ended; its name is free once it is gone. After the runs: another command's Job has that name, too.
                remove(kubectl, job["metadata"]["name"], lambda _: None)
            name = start(kubectl, at.settings, at.outputs, batch, parts=prepared.parts, sized=sized, run=next_run)
        except BaseException:
            stored.write_runs(runs, instead_of=[*runs, next_run])
            raise
        sys.stdout.write(f"Started batch {id_} with {plural(sized.servers, 'server')}.\n")
        return _wait(at, kubectl, prepared, name, wishes)


def _require_no_limits(wanted: Wanted, id_: str, at: Reached) -> None:
    """Raises CommandError for limits of a batch that runs: its pods know those with which it began."""
    given = {"--deadline": wanted.deadline, "--max-usd": wanted.max_usd, "--servers": wanted.servers}
    if options := [name for name, value in given.items() if value is not None]:
        raise CommandError(
            f"{', '.join(options)}: batch {id_} runs with the limits that it began with. Stop it (fleet batch cancel {id_} {at.where}), "
            "then run this command again: it goes on where it was"
        )


def _agree(at: Reached, prepared: _Prepared, sized: Sized, limits: Limits, until: float, *, yes: bool) -> None:
    """Print hours and dollars and ask for confirmation on a terminal. Raises CommandError."""
    from fleet.report.words import format_moment

    load, shards = prepared.load, prepared.shards
    size = sum(slice_.size for slice_ in shards.slices) / 1e6
    words = [
        f"{prepared.name}: {plural(shards.documents, 'document')}, {load.mean_input:,} tokens in and {load.output_tokens:,} out, "
        f"{size:,.1f} MB in {plural(len(shards.slices), 'shard')}: batch {shards.id}."
    ]
    if prepared.parts:
        words.append(f"{plural(len(prepared.parts), 'shard')} of them have their results already; the others:")
    words.append(sized.text(at.settings))
    width = min(100, terminal()[1])
    lines = (textwrap.fill(" ".join(words), width), *limits.text(), f"stops at: {format_moment(until)}")
    sys.stdout.write("\n".join(lines) + "\n")
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


def _wait(at: Reached, kubectl: Kubectl, prepared: _Prepared, job: str, wishes: Wishes) -> int:
    """Wait until the Job has ended, and bring the results."""
    from fleet.batch.status import Status, outline

    id_ = prepared.shards.id
    if wishes.detach:
        sys.stdout.write(_what_goes_on(at, id_))
        return CLEAN
    try:
        over = _watch(kubectl, prepared.stored, job, f"fleet batch fetch {id_} {at.where}")
    except (KeyboardInterrupt, SystemExit) as stop:
        sys.stdout.write(f"\nStopped watching.\n{_what_goes_on(at, id_)}")
        return code_of(stop)
    batch = prepared.stored.batch()
    assert batch is not None
    status = Status.of(prepared.stored, batch, kubectl.find("job", job))
    if status.phase == "failed":
        raise CommandError(_failed(kubectl, over, id_, at))
    if status.phase != "done":
        show(outline(status, at.where), "text")
        return FINDINGS
    return _finish(at, prepared, wishes)


def _watch(kubectl: Kubectl, stored: StoredBatch, job: str, later: str) -> Ended:
    from fleet.batch.status import Status, state_of
    from fleet.jobs.cluster_view import ClusterView
    from fleet.jobs.display import State, shown
    from fleet.jobs.watching import watch

    batch = stored.batch()
    assert batch is not None

    def state(view: ClusterView) -> State:
        status = Status.of(stored, batch, kubectl.find("job", job))
        return State(status.words, view.why) if status.phase == "waiting" else state_of(status)

    live, width = terminal()
    with shown(sys.stdout, live=live, width=width) as display:
        return watch(kubectl, job, state, display.state, later=later)


def _failed(kubectl: Kubectl, over: Ended, id_: str, at: Reached) -> str:
    """Message for a failed Job, with its pods' last log lines."""
    from fleet.jobs.cluster_view import failure_lines

    lines = [f"the pods of batch {id_} failed: {over.failed}", *failure_lines(kubectl, over.failures)]
    lines.append(f"Nothing is lost: fleet batch run FILE {at.where} goes on where it was")
    return "\n".join(lines)


def _finish(at: Reached, prepared: _Prepared, wishes: Wishes) -> int:
    """Bring the results of a batch that is done."""
    from fleet.clients.errors import LiveError

    later = f"fleet batch fetch {prepared.shards.id} {at.where}"
    batch = prepared.stored.batch()
    assert batch is not None
    if wishes.detach:
        sys.stdout.write(f"  bring its results:  {later}\n")
        return CLEAN
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
