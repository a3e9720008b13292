"""`fleet bench fetch`: an earlier measurement's results from the bucket, merged and reported."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.bench.run import DEFAULT_FOLDER, Out, terminal
from cli.options import Outputs, Root, Stack
from cli.packages import require_benchmark_packages

if TYPE_CHECKING:
    from benchmark.run.display import Display
    from benchmark.run.session import Google
    from live.prometheus import Servers
    from live.stack_outputs import StackOutputs


def fetch(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN|latest", help="Name of the measurement, or `latest`: the stack's newest."),
    ],
    stack: Stack = None,
    outputs: Outputs = None,
    out: Out = None,
    root: Root = None,
) -> int:
    """Bring an earlier measurement here, e.g. that of `pulumi up`, merge, certify and report it.

    What is here already is not fetched again. Needs no access to the cluster. Exits with 0 when the measurement is
    certified, with 1 when it is not.
    """
    from benchmark.run.display import shown
    from benchmark.run.fetching import choose, going_on
    from benchmark.run.session import google_of, gpu_servers
    from cli.project import find_root, require_stack
    from live import stack_outputs
    from settings.load import parse
    from settings.stack_file import read

    require_benchmark_packages()
    folder = find_root(root)
    name = require_stack(folder, stack)
    settings = parse(name, dict(read(folder, name).config))
    given = stack_outputs.read(name, folder, outputs)
    google = google_of(given)
    measurement = choose(google.bucket, name, run.strip("/").rpartition("/")[2])
    target = out or DEFAULT_FOLDER / measurement
    live, width = terminal()
    with shown(sys.stdout, live=live, width=width) as display:
        if (state := going_on(google.bucket, measurement, time.time())) is not None:
            at = ": ".join(filter(None, (state.phase, state.detail)))
            display.note(f"{measurement} still goes on ({at}); what there is so far is fetched")
        bring(google, measurement, target, given, gpu_servers(settings), display)
    return judge(target)


def bring(
    google: Google,
    measurement: str,
    folder: Path,
    outputs: StackOutputs,
    servers: Servers,
    display: Display,
) -> None:
    """Results from the bucket and DCGM's series from managed Prometheus into the folder."""
    from benchmark.run import fetching
    from benchmark.run.display import State
    from benchmark.run.gpu_history import add_dcgm

    what = f"gs://{google.bucket.name}/runs/{measurement}/ into {folder}"
    display.state(State("fetching results", what))
    fetching.fetch(
        google.bucket,
        measurement,
        folder,
        lambda done, of: display.state(State("fetching results", what, done=done, of=of, unit="bytes")),
    )
    display.state(State("asking managed Prometheus for the GPUs", "its last samples come a minute or two late"))
    if problem := add_dcgm(folder, google.prometheus, outputs, servers):
        display.note(f"DCGM: {problem}")


def judge(folder: Path) -> int:
    """Merge, certify and report the folder; the exit code of `fleet bench merge`."""
    from benchmark.folder import MERGED_FILE
    from benchmark.merge import MergeOptions
    from benchmark.merge.judged import judge as judged_of
    from benchmark.merge.judged import write
    from benchmark.report.write import write_report
    from cli.bench.merge import exit_code
    from cli.bench.merge_text import print_judged
    from cli.bench.report import FOLDER
    from report.terminal import stdout_paper

    judged = judged_of(folder, MergeOptions(), None)
    write(judged, folder / MERGED_FILE)
    print_judged(stdout_paper(), judged, written=folder / MERGED_FILE)
    page, *_ = write_report(judged, folder / FOLDER, source=folder)
    sys.stdout.write(f"{page} is the page\n")
    return exit_code(judged)
