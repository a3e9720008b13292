"""`fleet bench`: run, fetch, merge, compare, report, record."""

from __future__ import annotations

import typer

from fleet.cli.bench.compare import compare
from fleet.cli.bench.fetch import fetch
from fleet.cli.bench.merge import merge
from fleet.cli.bench.record import record
from fleet.cli.bench.report import report
from fleet.cli.bench.run import run

bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Benchmark a running stack; merge, certify and report the results.",
)
bench.command(short_help="Measure a running stack and download the results.")(run)
bench.command(short_help="Download an earlier measurement.")(fetch)
bench.command(short_help="Merge all clients' results and certify them.")(merge)
bench.command(short_help="Compare two measurements.")(compare)
bench.command(short_help="Write a page about a measurement.")(report)
bench.command(short_help="A certified measurement as an entry of the claims ledger.")(record)
