"""`fleet models`: the catalogue's models and the GPUs that each needs."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN
from fleet.cli.options import Format


def models(
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            "-m",
            metavar="TYPE",
            help="One machine type. Default: the largest with each GPU.",
        ),
    ] = None,
    format_: Format = "text",
) -> int:
    """List the catalogue's models: size, format, oldest vLLM release, and the GPUs needed on each machine.

    Reads facts/data/models.yaml. Uses no network.
    """
    from fleet.plan.models.report import listed, outline

    show(outline(listed(machine)), format_)
    return CLEAN
