"""`fleet batch status`: how far a batch is, and what it costs."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from fleet.cli.batch.reached import Id, reach
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.interactive import code_of, terminal
from fleet.cli.options import Format, Live, OneStack


@with_fields
def status(
    of: OneStack,
    live: Live,
    id_: Id = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it until the batch is done or stopped.")] = False,
    format_: Format = "text",
) -> int:
    """Show shards that are done, time left and dollars at most. Without ID, all batches if there are several.

    Exits with 1 if a batch failed, stands still, or stops before it is done.
    """
    if watch and format_ != "text":
        raise CommandError("--watch cannot be combined with --format json")
    at = reach(of, live.outputs)
    from fleet.batch.launch import jobs
    from fleet.batch.status import Status, findings, outline, overview, state_of
    from fleet.batch.stored import StoredBatch, listed
    from fleet.jobs.display import shown
    from fleet.jobs.session import cluster_of
    from fleet.jobs.watching import POLL_SECONDS, patiently

    with cluster_of(at.outputs, at.settings, live.kubeconfig, live.context) as kubectl:
        if id_ is None and len(found := listed(at.bucket)) > 1:
            if watch:
                raise CommandError(f"stack {at.stack} has several batches: name the one to watch")
            known = jobs(kubectl)
            every = [Status.of(StoredBatch(at.bucket, one.id), one, known.get(one.id)) for one in found]
            show(overview(every, at.stack), format_)
            return CLEAN
        stored = at.chosen(id_)
        batch = stored.batch()
        assert batch is not None

        def look() -> Status:
            return Status.of(stored, batch, jobs(kubectl).get(batch.id))

        now = look()
        if watch:
            is_live, width = terminal()
            try:
                with shown(sys.stdout, live=is_live, width=width) as display:

                    def again() -> None:
                        nonlocal now
                        now = look()

                    while now.phase in ("waiting", "running"):
                        display.state(state_of(now))
                        time.sleep(POLL_SECONDS)
                        patiently(again, display.state)
            except (KeyboardInterrupt, SystemExit) as stop:
                return code_of(stop)
    show(outline(now, at.where), format_)
    return FINDINGS if any(findings(now, at.where)) else CLEAN
