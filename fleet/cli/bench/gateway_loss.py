"""`fleet bench gateway-loss`: the measurements that split a gateway's loss, and the split."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN
from fleet.cli.fields import with_fields
from fleet.cli.options import Format, OneStack


@with_fields()
def gateway_loss(
    of: OneStack,
    replicas: Annotated[
        int, typer.Option(metavar="N", min=2, help="Replicas of the session. With one there is nothing to pick.")
    ] = 2,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", exists=True, file_okay=False, help="Folder of the session's measurements: print the split."
        ),
    ] = None,
    format_: Format = "text",
) -> int:
    """Print how to measure what a gateway costs and which part of it costs how much: settings, commands, time and price. Starts nothing.

    Eight measurements: without a gateway, gateway to the Service, random picks, the picker as it is, and the first and the last again
    with 20 tokens a chunk and not streamed. With --results it computes the split from those that are there.
    """
    if results is not None:
        from fleet.doctor.packages import require_benchmark_packages

        require_benchmark_packages()
        from fleet.bench.gateway_loss.page import split_outline
        from fleet.bench.gateway_loss.split import measured_in

        _, name = of.find()
        show(split_outline(name, measured_in(results)), format_)
        return CLEAN
    from fleet.bench.gateway_loss.session import outline, session

    folder, name = of.find()
    root = "" if of.root is None else f" --root {shlex.quote(str(of.root))}"
    show(outline(session(folder, name, replicas, root), root), format_)
    return CLEAN
