"""`fleet prices`: machine prices by region and purchase option."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN
from fleet.cli.options import Format

_Mode = Literal["on-demand", "spot", "flex-start", "calendar", "cud-1y", "cud-3y"]


def prices(
    machine: Annotated[str, typer.Option("--machine", "-m", metavar="TYPE", help="Machine type.")] = "a4-highgpu-8g",
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="One region. Default: all.")] = None,
    mode: Annotated[_Mode | None, typer.Option("--mode", help="One purchase option. Default: all.")] = None,
    format_: Format = "text",
) -> int:
    """Compare a machine's prices by region and purchase option, cheapest first, with date and source.

    Reads facts/data/prices.csv. Uses no network.
    """
    from facts.prices import today
    from fleet.plan.prices.report import known, outline

    show(outline(known(machine, region, mode, today())), format_)
    return CLEAN
