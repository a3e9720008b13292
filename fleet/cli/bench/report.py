"""`fleet bench report`: raw results merged, certified and shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.options import Format
from fleet.doctor.packages import require_benchmark_packages


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of measurements.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", dir_okay=False, help="The page. Default: report.html in the first DIR."
        ),
    ] = None,
    format_: Format = "text",
) -> int:
    """Merge the raw results of one or several measurements, certify each, print the report and write it as a page.

    The page needs no network and no script. Exits with 0 when every measurement is certified, with 1 when not.
    """
    require_benchmark_packages()
    return shown(folders, out, format_)


def shown(folders: Sequence[Path], out: Path | None = None, format_: str = "text") -> int:
    """Print and write the report; the exit code."""
    from fleet.bench.report.outline import measured, outline
    from fleet.bench.report.write import PAGE, write_page

    found = [measured(folder) for folder in folders]
    made = outline(found)
    page = out or folders[0] / PAGE
    write_page(made, page)
    show(made, format_)
    if format_ == "text":
        sys.stdout.write(f"\npage: {page}\n")
    return CLEAN if all(one.is_certified for one in found) else FINDINGS
