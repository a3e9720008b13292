"""`fleet batch cancel`: stops a batch, so that it can go on later."""

from __future__ import annotations

import sys
import time

from facts.texts import plural
from fleet.cli.batch.reached import Id, reach
from fleet.cli.exits import CLEAN, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.interactive import terminal
from fleet.cli.options import Live, OneStack


@with_fields
def cancel(of: OneStack, live: Live, id_: Id = None) -> int:
    """Stop a batch: its Job is deleted, its pods store what they have and end, then its servers go.

    Nothing is lost: `fleet batch run` with the same file goes on where it was, and `fleet batch fetch --partial` brings the results so far.
    """
    at = reach(of, live.outputs)
    from fleet.batch.launch import jobs, remove
    from fleet.batch.stored import StoredBatch
    from fleet.jobs.display import State, shown
    from fleet.jobs.job import ended
    from fleet.jobs.session import cluster_of

    with cluster_of(at.outputs, at.settings, live.kubeconfig, live.context) as kubectl:
        running = {batch: job for batch, job in jobs(kubectl).items() if ended(job) is None}
        chosen = next((batch for batch in running if id_ in (None, batch)), None)
        if chosen is None:
            others = f"; {', '.join(running)} runs" if running else ""
            what = "no batch" if id_ is None else f"batch {id_}"
            verb = "runs" if id_ is None else "does not run"
            raise CommandError(
                f"{what} {verb} on stack {at.stack}{others}; fleet batch status {at.where} shows what there is"
            )
        is_live, width = terminal()
        with shown(sys.stdout, live=is_live, width=width) as display:

            def show(left: int) -> None:
                display.state(State("pods store what they have", plural(left, "pod")))

            display.state(State("stopping", chosen))
            remove(kubectl, running[chosen]["metadata"]["name"], show)
        StoredBatch(at.bucket, chosen).end_run(time.time())
    sys.stdout.write(
        f"Batch {chosen} is stopped, and nothing of it is lost.\n"
        f"  go on:               fleet batch run FILE {at.where}\n"
        f"  the results so far:  fleet batch fetch {chosen} {at.where} --partial\n"
    )
    return CLEAN
