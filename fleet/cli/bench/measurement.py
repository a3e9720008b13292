"""What `fleet bench run` and `fetch` share: a measurement's folder, its download, its verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.bench.merge import exit_code
from fleet.cli.bench.report import FOLDER
from fleet.cli.documents import show

if TYPE_CHECKING:
    from fleet.bench.run.session import Google
    from fleet.clients.prometheus import Servers
    from fleet.clients.stack_outputs import StackOutputs
    from fleet.jobs.display import Display

DEFAULT_FOLDER = Path("out") / "runs"
"""Holds a folder for every measurement."""
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="DIR", file_okay=False, help="Folder for this measurement. Default: out/runs/NAME."
    ),
]


def bring(
    google: Google, measurement: str, folder: Path, outputs: StackOutputs, servers: Servers, display: Display
) -> None:
    """Download results from the bucket and DCGM's series from managed Prometheus."""
    from fleet.bench.run import fetching
    from fleet.bench.run.gpu_history import add_dcgm
    from fleet.jobs.display import State

    what = f"gs://{google.bucket.name}/runs/{measurement}/ into {folder}"
    display.state(State("downloading results", what))
    fetching.fetch(
        google.bucket,
        measurement,
        folder,
        lambda done, of: display.state(State("downloading results", what, done=done, of=of, unit="bytes")),
    )
    display.state(State("reading GPU metrics from managed Prometheus", "the last samples arrive a minute or two late"))
    if problem := add_dcgm(folder, google.prometheus, outputs, servers):
        display.note(f"DCGM: {problem}")


def judge(folder: Path) -> int:
    """Merge, certify and report the folder; the exit code of `fleet bench merge`."""
    from fleet.bench.folder import MERGED_FILE
    from fleet.bench.judged import judge as judged_of
    from fleet.bench.judged import write
    from fleet.bench.merge import MergeOptions
    from fleet.bench.report.outline import outline
    from fleet.bench.report.write import write_report

    judged = judged_of(folder, MergeOptions())
    write(judged, folder / MERGED_FILE)
    show(outline(judged, source=folder, written=folder / MERGED_FILE), "text")
    page = write_report(judged, folder / FOLDER, source=folder)
    sys.stdout.write(f"page: {page}\n")
    return exit_code(judged)
