"""What `fleet bench run` and `fetch` share: a measurement's folder and its download."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
