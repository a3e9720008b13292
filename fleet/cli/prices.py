"""`fleet prices`: machine prices, and updating the price list from a download."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from facts.files import write_whole
from fleet.cli.completion import choices, machines
from fleet.cli.documents import show
from fleet.cli.exits import CLEAN
from fleet.cli.options import Format

_Mode = Literal["on-demand", "spot", "flex-start", "calendar", "cud-1y", "cud-3y"]


def prices(
    machine: Annotated[
        str, typer.Option("--machine", "-m", metavar="TYPE", help="Machine type.", autocompletion=choices(machines))
    ] = "a4-highgpu-8g",
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="One region. Default: all.")] = None,
    mode: Annotated[_Mode | None, typer.Option("--mode", help="One purchase option. Default: all.")] = None,
    format_: Format = "text",
    update: Annotated[
        Path | None,
        typer.Option(
            "--update",
            metavar="FILE|DIR",
            exists=True,
            help="Rewrite the price list from downloaded SKUs (Cloud Billing Catalog API, JSON).",
        ),
    ] = None,
) -> int:
    """Compare a machine's prices by region and purchase option, cheapest first, with date and source.

    Reads facts/data/prices.csv; --update rewrites it. Uses no network.
    """
    from facts.prices import today
    from fleet.plan.prices.report import known, outline

    if update is not None:
        return _update(update)
    show(outline(known(machine, region, mode, today())), format_)
    return CLEAN


def _update(path: Path) -> int:
    from facts import prices as facts
    from fleet.plan.prices.sku_list import SOURCE, file_text, read, rewritten

    rows = rewritten(facts.rows(), read(path))
    new = [row for row in rows if row.source == SOURCE]
    heading = "".join(line for line in facts.FILE.read_text("utf-8").splitlines(keepends=True) if line.startswith("#"))
    write_whole(facts.FILE, file_text(rows, heading, facts.COLUMNS).encode())
    what, regions = len({row.what for row in new}), len({row.region for row in new})
    sys.stdout.write(
        f"{facts.FILE.name}: {len(new)} rows of {what} machines and items in {regions} regions, prices of {max(row.date for row in new)}; "
        f"{len(rows) - len(new)} rows not in the download were kept\n"
    )
    return CLEAN
