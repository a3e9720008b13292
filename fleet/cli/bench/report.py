"""`fleet bench report`: one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.exits import CLEAN
from fleet.doctor.packages import require_benchmark_packages

FOLDER = "report"
"""Default folder of the report, inside the measurement's."""


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the measurement.", file_okay=True)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Write the report here. Default: DIR/report.")
    ] = None,
) -> int:
    """Write report.html, the page of a measurement.

    Reads DIR/merged.json if it is newer than all other files of DIR; otherwise merges and certifies DIR in memory. The page needs
    no network and no script. Exits with 0 whatever the verdict.
    """
    require_benchmark_packages()
    from fleet.bench.report.source import judged_of
    from fleet.bench.report.write import write_report

    judged = judged_of(folder)
    written = write_report(judged, folder / FOLDER if out is None else out, source=folder)
    lines = (judged.certificate.headline, judged.certificate.reason)
    sys.stdout.write("\n".join(line for line in lines if line) + f"\n\n{written}\n")
    return CLEAN
