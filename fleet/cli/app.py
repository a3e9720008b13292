"""The commands of `fleet`. Each imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
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
from fleet.cli.rollout import rollout
from fleet.cli.spending import spending
from fleet.cli.verify import verify


def _exit_with(code: int | None, **_: object) -> None:
    """Exit with the code that the command returned."""
    raise typer.Exit(code or CLEAN)


_UsageError: Any = typer.BadParameter.__base__
"""typer has no public name for it."""


class _UnderHeadings(TyperGroup):
    """Lists its commands under their headings. typer does so only with rich, which would double the time of `fleet --help`."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's signature
        """Write each heading and its commands."""
        width = formatter.width - 6 - max(map(len, self.commands))
        headings: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                heading = str(getattr(command, "rich_help_panel", ""))
                headings.setdefault(heading, []).append((name, command.get_short_help_str(width)))
        for heading, rows in headings.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


class _Command(TyperCommand):
    """A command whose usage errors show the given value, and the command's usage."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as typer does; a conversion's message is pydantic's, about its own types."""
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            error.ctx = error.ctx or ctx
            if isinstance(error.__cause__, ValueError):
                error.message = _wrong_value(error.__cause__, error.message)
            raise


def _wrong_value(error: ValueError, message: str) -> str:
    """What is wrong with an option's value, without secrets."""
    from facts.secrets_in_text import without_secrets
    from facts.texts import shortened

    told = message.removeprefix("Value error, ")
    _, should, kind = told.partition("Input should be ")
    if not should:
        return without_secrets(told)
    (given, *_) = [one["input"] for one in getattr(error, "errors", list)()] or [""]
    return f"{shortened(without_secrets(str(given)))!r} is not {kind.partition(', unable')[0]}."


app = typer.Typer(
    name="fleet",
    cls=_UnderHeadings,
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


_PLAN, _CHECK, _RUN, _MEASURE = "Plan", "Check", "Run", "Measure"


def _add(heading: str, short_help: str, command: Callable[..., int]) -> None:
    app.command(short_help=short_help, rich_help_panel=heading)(command)


_add(_PLAN, "Size a fleet for a goal: nodes, price, latency, uncertainty.", plan)
app.add_typer(
    batch,
    name="batch",
    short_help="Plan a file of documents, and process it to its end.",
    rich_help_panel=_PLAN,
)
_add(_PLAN, "Compare machine prices by region and purchase option.", prices)
_add(_PLAN, "List the catalogue's models and the GPUs that each needs.", models)
_add(_PLAN, "Make a stack file, from another stack or for a model on a machine.", new)
_add(_CHECK, "Check a stack file as `pulumi up` would.", check)
_add(_CHECK, "Show what a stack creates, costs and delivers, without a cloud.", preview)
_add(_CHECK, "Bring a stack up on a local control plane and run failure drills.", rehearse)
_add(_CHECK, "Check this machine's prerequisites for each step.", doctor)
app.add_typer(config, name="config", rich_help_panel=_CHECK)
_add(_RUN, "Check in a minute that a live stack serves what its file declares.", verify)
app.add_typer(
    rollout,
    name="rollout",
    short_help="Upgrade one canary replica first, the others after its verdict.",
    rich_help_panel=_RUN,
)
_add(_RUN, "Show how much of a stack's spending limit is used.", spending)
app.add_typer(
    bench, name="bench", short_help="Benchmark a live stack; certify and report the results.", rich_help_panel=_MEASURE
)
for _group in (app, batch, config, rollout, bench):
    for _info in _group.registered_commands:
        _info.cls = _Command


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
