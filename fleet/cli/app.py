"""The commands of `fleet` and their options. Whatever a command needs, it imports when it runs."""

from __future__ import annotations

import sys

import typer

from fleet.cli import VERSION
from fleet.cli.bench import bench
from fleet.cli.config import config
from fleet.cli.doctor import doctor
from fleet.cli.exits import CLEAN
from fleet.cli.models import models
from fleet.cli.plan import plan
from fleet.cli.preview import preview
from fleet.cli.prices import prices
from fleet.cli.rehearse import rehearse
from fleet.cli.render import render
from fleet.cli.rollout import rollout
from fleet.cli.spending import spending
from fleet.cli.verify import verify


def _exit_with(code: int | None, **_: object) -> None:
    """Every command returns its exit code."""
    raise typer.Exit(code or CLEAN)


app = typer.Typer(
    name="fleet",
    help="Previews, prices and checks a vLLM fleet on GKE before it costs anything.",
    no_args_is_help=True,
    result_callback=_exit_with,
    # Plain help: rich would double the time of `fleet --help`.
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
    """Previews, prices and checks a vLLM fleet on GKE before it costs anything."""


app.command(short_help="Show a stack without a cloud: resources, price, figures, findings.")(preview)
app.command(short_help="Write every manifest of a stack to a folder.")(render)
app.command(short_help="Work out the fleet for a goal: nodes, price, latency, and how sure that is.")(plan)
app.command(short_help="Compare what a machine costs by region and way to buy; update the price list.")(prices)
app.command(short_help="List the models of the catalogue and the GPUs that each needs.")(models)
app.command(short_help="Apply a stack to a local control plane, and play failure drills.")(rehearse)
app.command(short_help="Look at a live stack for a minute: does it serve what its file declares?")(verify)
app.command(short_help="Say how much of a stack's limit is spent, and how to go on.")(spending)
app.add_typer(
    bench, name="bench", short_help="Measure a live stack with many clients; certify and report what they found."
)
app.add_typer(rollout, name="rollout", short_help="Upgrade one replica first, and the others after its verdict.")
app.add_typer(config, name="config")
app.command(short_help="Say what this machine lacks for preview, rehearse, up and bench.")(doctor)
