"""`fleet bench`: run, fetch, report, compare."""

from __future__ import annotations

import typer

from fleet.cli.bench.compare import compare
from fleet.cli.bench.fetch import fetch
from fleet.cli.bench.report import report
from fleet.cli.bench.run import run

bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Benchmark a running stack; certify, report and compare the results.",
)
bench.command(short_help="Measure a running stack and download the results.")(run)
bench.command(short_help="Download an earlier measurement.")(fetch)
bench.command(short_help="Compare two measurements.")(compare)
bench.command(short_help="Merge, certify and show measurements.")(report)
