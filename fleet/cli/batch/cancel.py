"""`fleet batch cancel`: stops a batch, so that it can go on later."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from facts.texts import plural
from fleet.cli.batch.reached import Id, Reached, reach
from fleet.cli.exits import CLEAN, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.interactive import terminal
from fleet.cli.options import Live, OneStack

if TYPE_CHECKING:
    from fleet.clients.kubectl import Manifest


@with_fields
def cancel(of: OneStack, live: Live, id_: Id = None) -> int:
    """Stop a batch: its clients store what they have and end, then its servers go.

    Nothing is lost: `fleet batch run` with the same file goes on where it was, and `fleet batch fetch --partial` brings the results so far.
    """
    at = reach(of, live.outputs)
    from fleet.batch.launch import active, batch_of, wait_until_stopped
    from fleet.batch.status import Status, go_on
    from fleet.batch.stored import StoredBatch
    from fleet.jobs.display import State, shown
    from fleet.jobs.session import cluster_of

    with cluster_of(at.outputs, at.settings, live.kubeconfig, live.context) as kubectl:
        job = _job(active(kubectl), id_, at)
        name, id_ = job["metadata"]["name"], batch_of(job)
        stored = StoredBatch(at.bucket, id_)
        stored.stop()
        is_live, width = terminal()
        with shown(sys.stdout, live=is_live, width=width) as display:
            display.state(State("told to stop", id_))
            wait_until_stopped(
                kubectl, name, lambda left: display.state(State("clients store what they have", plural(left, "client")))
            )
        kubectl.delete("job", name)
    batch = stored.batch()
    again = f"fleet batch run FILE {at.where}" if batch is None else go_on(Status.of(stored, batch), at.where)
    sys.stdout.write(
        f"Batch {id_} is stopped, and nothing of it is lost.\n"
        f"  go on, under its terms:  {again}\n"
        f"  the results so far:      fleet batch fetch {id_} {at.where} --partial\n"
        f"  what it cost so far:     fleet batch status {id_} {at.where}\n"
    )
    return CLEAN


def _job(found: list[Manifest], wanted: str | None, at: Reached) -> Manifest:
    """The Job that is meant. Raises UserError with what is known of a batch that has none, and LiveError."""
    from fleet.batch.launch import batch_of
    from fleet.batch.status import Status
    from fleet.batch.stored import StoredBatch, listed

    for job in found:
        if wanted in (None, batch_of(job)):
            return job
    running = f"; {batch_of(found[0])} runs" if found else ""
    if wanted is None:
        batch = next(iter(listed(at.bucket)), None)
        said = f"no batch runs on stack {at.stack}"
    else:
        batch = at.chosen(wanted).batch()
        said = f"batch {wanted} does not run on stack {at.stack}{running}"
    if batch is not None:
        status = Status.of(StoredBatch(at.bucket, batch.id), batch)
        then = f"fleet batch {'fetch' if status.phase == 'done' else 'status'} {batch.id} {at.where}"
        whose = "it" if wanted is not None else f"the newest, {batch.id},"
        state = "is done" if status.phase == "done" else "is not done"
        said += f"; {whose} {state}: {then}"
    raise CommandError(said)
