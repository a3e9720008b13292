"""`fleet bench record`: a certified measurement as an entry of the claims ledger."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.exits import CLEAN
from fleet.doctor.packages import require_benchmark_packages


def record(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the measurement.", file_okay=False)],
    id_: Annotated[str, typer.Option("--id", metavar="ID", help="Id of the new ledger entry, e.g. spot-12-nodes.")],
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="What was measured, in one line.")],
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
) -> int:
    """Print a certified measurement as an entry of the claims ledger, facts/data/measured.yaml.

    Uncertified measurements are refused, and an id that the ledger has.
    A stack of exactly that shape shows the entry once it is in the ledger.
    """
    require_benchmark_packages()
    from facts.figures import measured_figures
    from fleet.bench.errors import BenchmarkError
    from fleet.bench.merge import merge_folder
    from fleet.bench.record import as_yaml, entry_of
    from fleet.bench.record.digest import digest_of_all

    if id_ in {figure.id.partition(".")[2] for figure in measured_figures()}:
        raise BenchmarkError(f"--id {id_}: facts/data/measured.yaml has an entry with this id; pass another --id")
    entry = entry_of(merge_folder(folder), results=digest_of_all(folder), id_=id_, title=title, point=point, raw=raw)
    sys.stdout.write(as_yaml(entry))
    sys.stderr.write(
        f"{entry.certificate.headline}\nPaste the entry below `figures:` in facts/data/measured.yaml, in the place of `{{}}` if that "
        "is there, and run python -m docs.generate.provenance; commit both files.\n"
    )
    return CLEAN
