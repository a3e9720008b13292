"""`fleet bench record`: add a certified measurement to the claims ledger, or store it as a baseline."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.exits import CLEAN, CommandError
from fleet.doctor.packages import require_benchmark_packages


def record(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the measurement.", file_okay=False)],
    id_: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Id of the new ledger entry, e.g. spot-12-nodes.")
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="What was measured, in one line.")
    ] = None,
    point: Annotated[
        int | None, typer.Option("--point", metavar="N", min=0, help="Which load of a sweep, counted from 0.")
    ] = None,
    raw: Annotated[
        str | None,
        typer.Option(
            "--raw",
            metavar="URL",
            help="Address of the raw results, https:// or gs://. Default: their path in the stack's results bucket.",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            metavar="FILE",
            dir_okay=False,
            help="Ledger to add to. Default: the project's facts/data/measured.yaml.",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="FILE", dir_okay=False, help="Write a baseline for `fleet bench merge --baseline`."
        ),
    ] = None,
) -> int:
    """Add a certified measurement to the claims ledger (--id, --title), store it as a baseline (--baseline), or both.

    Merges and certifies DIR again instead of reading merged.json. The ledger refuses uncertified and bare results, and an id of
    another entry; an entry that is there is checked against the results. A stack of exactly that shape shows it from then on.
    """
    if (id_ is None) != (title is None):
        missing = "--title" if title is None else "--id"
        raise CommandError(f"{missing} is missing: a ledger entry needs an id and a title")
    if id_ is None and baseline is None:
        raise CommandError("nothing to write; pass --id and --title for a ledger entry, or --baseline FILE")
    if id_ is None and (ledger is not None or raw is not None):
        raise CommandError("--ledger and --raw need --id and --title")
    require_benchmark_packages()
    if baseline is not None:
        from fleet.cli.bench.written import require_outside, require_own_file

        require_outside(baseline, folder, "--baseline")
        require_own_file("--baseline", baseline, "a baseline", frozenset({"shape", "points", "lacks"}))
    # The baseline first: unlike a ledger entry, it can be written again.
    if baseline is not None:
        _store(folder, point, baseline)
    if id_ is not None and title is not None:
        _add(folder, id_, title, point, raw, ledger)
    return CLEAN


def _add(folder: Path, id_: str, title: str, point: int | None, raw: str | None, ledger: Path | None) -> None:
    from facts.ledger import DATA_FOLDER
    from fleet.bench.merge import merge_folder
    from fleet.bench.recomputed import digest_of_all
    from fleet.bench.record import add, entry_of

    own = DATA_FOLDER / "measured.yaml"
    file = ledger or own
    entry = entry_of(merge_folder(folder), results=digest_of_all(folder), id_=id_, title=title, point=point, raw=raw)
    added = add(file, entry)
    already = "" if added else " already, as these results give it"
    sys.stdout.write(f"{entry.certificate.headline}\nmeasured.{id_} is in {file}{already}\n")
    if added and file.resolve() == own.resolve():
        sys.stdout.write("Next: python -m docs.generate.provenance writes docs/provenance.md; commit both files.\n")


def _store(folder: Path, point: int | None, file: Path) -> None:
    from fleet.bench.record import baseline_file

    stored = baseline_file.stored(folder, point, file)
    baseline_file.write(file, stored)
    sys.stdout.write(
        f"{stored.headline}\nbaseline in {file}; compare with: fleet bench merge DIR --baseline {shlex.quote(str(file))}\n"
    )
