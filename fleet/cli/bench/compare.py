"""`fleet bench compare`: what is worse beyond noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.options import Format
from fleet.doctor.packages import require_benchmark_packages


def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="Folder of the measurement to compare with.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="Folder of the measurement that is judged.")],
    format_: Format = "text",
) -> int:
    """Compare two measurements of the same requests, load by load: last week's and today's, a canary's and the servers'.

    Exits with 0 when nothing in B is worse beyond noise, with 1 when something is, or nothing can be compared.
    """
    require_benchmark_packages()
    from fleet.bench.compare import compare as compared_of
    from fleet.bench.merge import merge_folder
    from fleet.bench.report.comparison import comparison

    compared = compared_of(merge_folder(before), merge_folder(after))
    show(comparison(compared, before.name, after.name), format_)
    return CLEAN if compared.holds else FINDINGS
