"""`fleet bench export`: a measurement as a Benchmark Report of llm-d."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from facts.files import write_whole
from fleet.cli.exits import CLEAN, CommandError
from fleet.doctor.packages import require_benchmark_packages


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the measurement.", file_okay=True)],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write the report here, as JSON.")
    ],
    point: Annotated[
        int | None, typer.Option("--point", metavar="N", min=0, help="Which load of a sweep, counted from 0.")
    ] = None,
) -> int:
    """Write one load of a measurement in llm-d's Benchmark Report format, version 0.2.

    The report names the verdict of the certificate. docs/certificate.md lists what is left out, and why.
    """
    require_benchmark_packages()
    from fleet.bench.export import report
    from fleet.bench.report.source import judged_of
    from fleet.cli.bench.written import require_outside, require_own_file

    require_outside(out, folder)
    require_own_file("--out", out, "a benchmark report", frozenset({"version", "run", "results"}))
    text = json.dumps(report(judged_of(folder), point), indent=2, allow_nan=False) + "\n"
    try:
        write_whole(out, text.encode())
    except OSError as error:
        raise CommandError(f"--out {out}: {error.strerror or error}") from None
    return CLEAN
