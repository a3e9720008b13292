"""`fleet batch`: plan, run, status, fetch, cancel."""

from __future__ import annotations

import typer

from fleet.cli.batch.cancel import cancel
from fleet.cli.batch.fetch import fetch
from fleet.cli.batch.plan import plan
from fleet.cli.batch.run import run
from fleet.cli.batch.status import status

batch = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Documents in a file: plan them, and process them to their end."
)
batch.command(short_help="Count a file's tokens; hours, dollars and the cheapest machine.")(plan)
batch.command(short_help="Process a file of documents on a stack, from zero servers to zero.")(run)
batch.command(short_help="Progress, time left and dollars of a batch.")(status)
batch.command(short_help="Download the results: one line for each document.")(fetch)
batch.command(short_help="Stop a batch; nothing is lost.")(cancel)
