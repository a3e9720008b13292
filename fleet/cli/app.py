"""The commands of `fleet`. Each imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

import typer
from typer.main import get_command, get_command_name

from fleet.cli import VERSION
from fleet.cli.batch import batch
from fleet.cli.bench import bench
from fleet.cli.check import check, config
from fleet.cli.doctor import doctor
from fleet.cli.exits import CLEAN
from fleet.cli.lab import rehearse
from fleet.cli.models import models
from fleet.cli.new import new
from fleet.cli.plan import plan
from fleet.cli.preview import preview
from fleet.cli.prices import prices
from fleet.cli.spending import spending
from fleet.cli.verify import verify


def _exit_with(code: int | None, **_: object) -> None:
    """Exit with the code that the command returned."""
    raise typer.Exit(code or CLEAN)


app = typer.Typer(
    name="fleet",
    help="Preview, price, rehearse and measure a vLLM fleet on GKE.",
    no_args_is_help=True,
    result_callback=_exit_with,
    epilog="Exit codes: 0 clean, 1 findings, 2 wrong input, 3 a defect of fleet.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"fleet {VERSION}\n")
        raise typer.Exit


@app.callback()
def fleet(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Preview, price, rehearse and measure a vLLM fleet on GKE."""


app.command(short_help="Size a fleet for a goal: nodes, price, latency, uncertainty.")(plan)
app.add_typer(batch, name="batch", short_help="Plan a file of documents, and process it to its end.")
app.command(short_help="Compare machine prices by region and purchase option.")(prices)
app.command(short_help="List the catalogue's models and the GPUs that each needs.")(models)
app.command(short_help="Make a stack file, from another stack or for a model on a machine.")(new)
app.command(short_help="Check a stack file as `pulumi up` would.")(check)
app.command(short_help="Show what a stack creates, costs and delivers, without a cloud.")(preview)
app.command(short_help="Bring a stack up on a local control plane and run failure drills.")(rehearse)
app.command(short_help="Check this machine's prerequisites for each step.")(doctor)
app.add_typer(config, name="config")
app.command(short_help="Check in a minute that a live stack serves what its file declares.")(verify)
app.command(short_help="Show how much of a stack's spending limit is used.")(spending)
app.add_typer(bench, name="bench", short_help="Benchmark a live stack; certify and report the results.")


@cache
def command_line(first: str) -> Callable[..., object]:
    """What parses and runs the arguments, of which this is the first.

    If it names a command, typer builds only that one: building all of them takes longer than most commands.
    """
    only = copy(app)
    only.registered_commands = [info for info in app.registered_commands if _name_of(info) == first]
    only.registered_groups = [info for info in app.registered_groups if info.name == first]
    return get_command(only if only.registered_commands or only.registered_groups else app)


def _name_of(info: Any) -> str:
    return info.name or get_command_name(info.callback.__name__)
