"""`fleet bench`: the benchmark from a laptop: run, fetch, merge, report, record, self-test."""

from __future__ import annotations

import typer

from cli.quick_typer import QuickGroup

bench = typer.Typer(
    cls=QuickGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Run the benchmark on a live stack, merge many clients' results, certify and report them.",
)
