"""`fleet bench merge`: all clients' results as one certified measurement."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS
from fleet.cli.options import Format
from fleet.doctor.packages import require_benchmark_packages

if TYPE_CHECKING:
    from fleet.bench.measurement import Judged


def merge(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of a measurement, of one run, or of results of `vllm bench serve`."),
    ],
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="FILE",
            help="Exclude a file, pattern or folder, or reason:WORD for all with that problem. Repeatable.",
        ),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Merge even if clients, runs or run.json are missing.")
    ] = False,
    slo: Annotated[
        str | None,
        typer.Option(
            "--slo",
            metavar="ttft:500,tpot:50,e2e:9000",
            help="Limits of a good request in milliseconds. Default: the stack's.",
        ),
    ] = None,
    format_: Format = "text",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", dir_okay=False, help="Write the outcome here. Default: DIR/merged.json."
        ),
    ] = None,
) -> int:
    """Merge all clients' results into one measurement and certify it.

    A file that is damaged, missing or of another run is an error (exit code 2) unless it is excluded. Exits with 1 when the
    measurement is not certified.
    """
    require_benchmark_packages()
    from fleet.bench.folder import MERGED_FILE
    from fleet.bench.judged import as_text, judge, write
    from fleet.bench.merge import MergeOptions, slo_of
    from fleet.cli.bench.written import require_an_outcome, require_outside

    if out is not None:
        require_outside(out, folder)
        require_an_outcome(out)
    options = MergeOptions(
        exclude=tuple(exclude or ()), slo=slo_of(slo) if slo is not None else None, allow_missing=allow_missing
    )
    judged = judge(folder, options)
    target = out or folder / MERGED_FILE
    write(judged, target)
    if format_ == "json":
        sys.stdout.write(as_text(judged))
    else:
        from fleet.bench.report.outline import outline

        show(outline(judged, source=folder, written=target), "text")
        if out is None:
            sys.stdout.write(f"  page: fleet bench report {shlex.quote(str(folder))}\n")
    return exit_code(judged)


def exit_code(judged: Judged) -> int:
    """0: certified; 1: not."""
    return CLEAN if judged.certificate.verdict == "certified" else FINDINGS
