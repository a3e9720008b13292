"""`fleet bench fetch`: an earlier measurement's results from the bucket, merged and reported."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from fleet.cli.bench.measurement import DEFAULT_FOLDER, Out, bring
from fleet.cli.fields import with_fields
from fleet.cli.interactive import terminal
from fleet.cli.options import OneStack, Outputs
from fleet.doctor.packages import require_benchmark_packages


@with_fields
def fetch(
    run: Annotated[
        str, typer.Argument(metavar="RUN|latest", help="Name of the measurement, or `latest`: the stack's newest.")
    ],
    of: OneStack,
    outputs: Outputs = None,
    out: Out = None,
) -> int:
    """Download an earlier measurement, e.g. that of `pulumi up`, merge, certify and report it.

    Skips files that exist here. Needs no access to the cluster. Exits with 0 when certified, 1 when not.
    """
    require_benchmark_packages()
    from fleet.bench.run.fetching import choose, going_on
    from fleet.bench.run.session import google_of, gpu_servers
    from fleet.cli.bench.report import shown as shown_report
    from fleet.clients import stack_outputs
    from fleet.jobs.display import shown
    from settings.load import parse
    from settings.stack_file import read

    folder, name = of.find()
    file = read(folder, name)
    settings = parse(name, file.config, file.unopened)
    given = stack_outputs.read(name, folder, outputs)
    google = google_of(given)
    measurement = choose(google.bucket, name, run.strip("/").rpartition("/")[2])
    target = out or DEFAULT_FOLDER / measurement
    live, width = terminal()
    with shown(sys.stdout, live=live, width=width) as display:
        if (state := going_on(google.bucket, measurement, time.time())) is not None:
            at = ": ".join(filter(None, (state.phase, state.detail)))
            display.note(f"{measurement} is still running ({at}); downloading what is stored so far")
        bring(google, measurement, target, given, gpu_servers(settings), display)
    return shown_report([target])
