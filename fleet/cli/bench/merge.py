"""`fleet bench merge`: many clients' results as one measurement, certified."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.packages import require_benchmark_packages

if TYPE_CHECKING:
    from fleet.bench.measurement import Judged

_Format = Literal["text", "json"]


def merge(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A measurement's folder, one run's, or any with results of `vllm bench serve`."
        ),
    ],
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="FILE",
            help="Leave a file, a pattern or a folder out, or reason:WORD: all with that problem. Repeatable.",
            show_default=False,
        ),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Merge although clients, runs or run.json are missing.")
    ] = False,
    slo: Annotated[
        str | None,
        typer.Option(
            "--slo",
            metavar="ttft:500,tpot:50,e2e:9000",
            help="Limits of a good request, milliseconds. Default: the stack's.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="FILE", dir_okay=False, help="Compare with this stored baseline.", show_default=False
        ),
    ] = None,
    format_: Annotated[_Format, typer.Option("--format", "-f", help="For a person or a machine.")] = "text",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            dir_okay=False,
            help="Where to write the outcome. Default: DIR/merged.json.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Merge all clients' results, certify them, and say what they come to.

    Names every file that is damaged, missing or of another run, and refuses them (exit code 2) unless they are left out by
    choice. Exits with 1 when the measurement is not certified, worse than the baseline beyond noise, or not comparable
    with it.
    """
    require_benchmark_packages()
    from fleet.bench.folder import MERGED_FILE
    from fleet.bench.merge import MergeOptions, slo_of
    from fleet.bench.merge.judged import as_text, judge, write

    if out is not None:
        _require_place(out, folder)
    options = MergeOptions(
        exclude=tuple(exclude or ()), slo=slo_of(slo) if slo is not None else None, allow_missing=allow_missing
    )
    judged = judge(folder, options, baseline)
    target = out or folder / MERGED_FILE
    write(judged, target)
    if format_ == "json":
        sys.stdout.write(as_text(judged))
    else:
        from fleet.cli.bench.merge_text import print_judged
        from fleet.report.terminal import stdout_paper

        print_judged(stdout_paper(), judged, written=target)
        if out is None:
            sys.stdout.write(f"  fleet bench report {shlex.quote(str(folder))} makes a page of it\n")
    return exit_code(judged)


def _require_place(out: Path, folder: Path) -> None:
    """The outcome costs nothing that was measured, and is not read as a client's result by the next merge. Raises CommandError."""
    from fleet.bench.folder import MERGED_FILE
    from fleet.cli.bench.written import require_own_file

    place, measured = out.resolve(), folder.resolve()
    if place.is_relative_to(measured) and place != measured / MERGED_FILE:
        raise CommandError(
            f"--out {out}: {folder} holds what was measured; name a place outside it, or leave --out away for {MERGED_FILE} there"
        )
    require_own_file("--out", out, "the outcome of a merge", frozenset({"measurement", "certificate"}))


def exit_code(judged: Judged) -> int:
    """0: certified and, where there is a baseline, not worse than it; 1: otherwise, also when nothing of it can be compared."""
    from fleet.bench.certificate.baseline import incomparable, regressed

    held = not regressed(judged.comparisons) and not incomparable(judged.comparisons)
    return CLEAN if judged.certificate.verdict == "certified" and held else FINDINGS
