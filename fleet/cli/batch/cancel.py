"""`fleet batch cancel`: stops a batch, so that it can go on later."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from facts.texts import plural
from fleet.cli.batch.reached import Id, reach
from fleet.cli.exits import CLEAN, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.interactive import terminal
from fleet.cli.options import Live, OneStack

if TYPE_CHECKING:
    from fleet.clients.kubectl import Manifest


@with_fields()
def cancel(of: OneStack, live: Live, id_: Id = None) -> int:
    """Stop a batch: its clients store what they have and end, then its servers go.

    Nothing is lost: `fleet batch run` with the same file goes on where it was, and `fleet batch fetch --partial` brings the results so far.
    """
    at = reach(of, live.outputs)
    from fleet.batch.launch import active, batch_of, wait_until_stopped
    from fleet.batch.stored import StoredBatch
    from fleet.jobs.display import State, shown
    from fleet.jobs.session import cluster_of

    with cluster_of(at.outputs, at.settings, live.kubeconfig, live.context) as kubectl:
        job = _job(active(kubectl), id_, at.stack)
        name, batch = job["metadata"]["name"], batch_of(job)
        StoredBatch(at.bucket, batch).stop()
        is_live, width = terminal()
        with shown(sys.stdout, live=is_live, width=width) as display:
            display.state(State("told to stop", batch))
            wait_until_stopped(
                kubectl, name, lambda left: display.state(State("clients store what they have", plural(left, "client")))
            )
        kubectl.delete("job", name)
    sys.stdout.write(
        f"Batch {batch} is stopped, and nothing of it is lost.\n"
        f"  go on:               fleet batch run FILE --stack {at.stack}\n"
        f"  the results so far:  fleet batch fetch {batch} --stack {at.stack} --partial\n"
    )
    return CLEAN


def _job(found: list[Manifest], wanted: str | None, stack: str) -> Manifest:
    """The Job that is meant. Raises CommandError."""
    from fleet.batch.launch import batch_of

    for job in found:
        if wanted in (None, batch_of(job)):
            return job
    running = f"; {batch_of(found[0])} runs" if found else ""
    raise CommandError(
        f"no batch runs on stack {stack}{running}"
        if wanted is None
        else f"batch {wanted} does not run on stack {stack}{running}"
    )
