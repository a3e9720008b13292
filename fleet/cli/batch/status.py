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
from fleet.cli.options import Format, OneStack, Outputs


@with_fields
def status(
    of: OneStack,
    id_: Id = None,
    outputs: Outputs = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it until the batch is done or stopped.")] = False,
    format_: Format = "text",
) -> int:
    """Show progress, time left, dollars so far and at the end, servers and failed lines. Without ID, all batches if there are several.

    Needs no access to the cluster. Exits with 1 while a batch stands still, will miss its deadline, or was stopped by its limit.
    """
    if watch and format_ != "text":
        raise CommandError("--watch cannot be combined with --format json")
    at = reach(of, outputs)
    from fleet.batch.status import Status, findings, outline, overview
    from fleet.batch.stored import StoredBatch, listed

    if id_ is None and len(found := listed(at.bucket)) > 1:
        if watch:
            raise CommandError(f"stack {at.stack} has several batches: name the one to watch")
        show(overview([Status.of(StoredBatch(at.bucket, one.id), one) for one in found], at.stack), format_)
        return CLEAN
    stored = at.chosen(id_)
    batch = stored.batch()
    assert batch is not None
    now = Status.of(stored, batch)
    if watch:
        from fleet.batch.status import state_of
        from fleet.jobs.display import shown
        from fleet.jobs.watching import POLL_SECONDS, patiently

        live, width = terminal()
        try:
            with shown(sys.stdout, live=live, width=width) as display:

                def look() -> None:
                    nonlocal now
                    now = Status.of(stored, batch)

                while now.phase in ("waiting", "running"):
                    display.state(state_of(now))
                    time.sleep(POLL_SECONDS)
                    patiently(look, display.state)
        except (KeyboardInterrupt, SystemExit) as stop:
            return code_of(stop)
    show(outline(now, at.where), format_)
    return FINDINGS if any(findings(now, at.where)) else CLEAN
