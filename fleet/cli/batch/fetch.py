"""`fleet batch fetch`: a batch's results, one line for each document."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from facts.files import write_whole
from facts.texts import plural
from fleet.cli.batch.reached import DEFAULT_FOLDER, Id, Out, reach
from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.fields import with_fields
from fleet.cli.interactive import terminal
from fleet.cli.options import OneStack, Outputs

if TYPE_CHECKING:
    from fleet.batch.stored import Batch, StoredBatch, Where


@with_fields
def fetch(
    of: OneStack,
    id_: Id = None,
    outputs: Outputs = None,
    out: Out = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Of a batch that is not done: the results so far.")
    ] = False,
) -> int:
    """Download the results into one file, in the order of the input, and check that each document has exactly one.

    Skips what exists here. Needs no access to the cluster. Exits with 1 if lines failed, or with --partial if some are missing.
    """
    at = reach(of, outputs)
    stored = at.chosen(id_)
    batch = stored.batch()
    assert batch is not None
    return bring(stored, batch, out, at.where, partial=partial)


def bring(stored: StoredBatch, batch: Batch, out: Path | None, where: Where, *, partial: bool = False) -> int:
    """Download, merge and check. Raises UserError and LiveError; what was downloaded is kept."""
    from fleet.batch.results import FILE, SUMMARY_FILE, clear, download, merge
    from fleet.jobs.display import State, shown

    folder = out or DEFAULT_FOLDER / batch.id
    folder.mkdir(parents=True, exist_ok=True)
    live, width = terminal()
    with shown(sys.stdout, live=live, width=width) as display:

        def brought(done: int, of: int) -> None:
            display.state(State("downloading results", str(folder), done=done, of=of, unit="bytes"))

        display.state(State("downloading results", str(folder)))
        parts = len(stored.parts())
        download(stored, folder, brought)
        partial = partial and parts < batch.shards
        display.state(State("checking and merging"))
        merged = merge(batch, folder, partial=partial)
    if not merged.documents:
        merged.file.unlink()
        sys.stdout.write(f"No document of batch {batch.id} has a result yet: fleet batch status {batch.id} {where}\n")
        return FINDINGS
    if not partial:
        write_whole(folder / SUMMARY_FILE, json.dumps(merged.summary(), indent=2).encode() + b"\n")
        clear(folder)
    failed = sum(merged.failed.values())
    codes = ", ".join(f"{count:,} {code}" for code, count in sorted(merged.failed.items()))
    told = f"{failed:,} with an error ({codes})" if failed else "none with an error"
    tokens = f"{merged.input_tokens:,} tokens in and {merged.output_tokens:,} out"
    sys.stdout.write(
        f"{merged.file}: {merged.documents:,} of {plural(batch.documents, 'document')}, {told}; {tokens}\n"
    )
    return CLEAN if merged.file.name == FILE and not failed else FINDINGS
