"""The commands of `fleet`. Each is imported when it is called, and imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Final

import typer
from typer.main import get_command

from fleet.cli import VERSION
from fleet.cli.exits import CLEAN

_VERBS: Final[Mapping[str, tuple[str, str | None]]] = {
    "plan": ("plan", "Size a fleet for a goal: nodes, price, latency, uncertainty."),
    "batch": ("batch", "Plan a file of documents, and process it to its end."),
    "prices": ("prices", "Compare machine prices by region and purchase option."),
    "models": ("models", "List the catalogue's models and the GPUs that each needs."),
    "new": ("new", "Make a stack file, from another stack or for a model on a machine."),
    "check": ("check", "Check a stack file as `pulumi up` would."),
    "preview": ("preview", "Show what a stack creates, costs and delivers, without a cloud."),
    "rehearse": ("lab", "Bring a stack up on a local control plane and run failure drills."),
    "doctor": ("doctor", "Check this machine's prerequisites for each step."),
    "config": ("check", None),
    "verify": ("verify", "Check in a minute that a live stack serves what its file declares."),
    "spending": ("spending", "Show how much of a stack's spending limit is used."),
    "bench": ("bench", "Benchmark a live stack; certify and report the results."),
}
"""Module in `fleet.cli` and short help of each verb; importing all takes longer than most commands."""


def _exit_with(code: int | None, **_: object) -> None:
    """Exit with the code that the command returned."""
    raise typer.Exit(code or CLEAN)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"fleet {VERSION}\n")
        raise typer.Exit


def _fleet(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Preview, price, rehearse and measure a vLLM fleet on GKE."""


def app_with(verbs: Iterable[str] = _VERBS) -> typer.Typer:
    """The command line with these verbs; by default with all."""
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
    app.callback()(_fleet)
    for name in verbs:
        module, help_ = _VERBS[name]
        found = import_module(f"fleet.cli.{module}")
        verb = getattr(found, name)
        if isinstance(verb, typer.Typer):
            app.add_typer(verb, name=name, short_help=help_)
        else:
            app.command(name, short_help=help_, context_settings=getattr(found, "CONTEXT", None))(verb)
    return app


def command_line(first: str) -> Callable[..., object]:
    """What parses and runs the arguments, of which this is the first."""
    return get_command(app_with([first] if first in _VERBS else _VERBS))
