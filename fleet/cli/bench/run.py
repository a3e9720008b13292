"""`fleet bench run`: measure a running stack from this machine."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fleet.bench.errors import BenchmarkError
from fleet.bench.run.wanted import Changes, require_the_same_stack, settings_for
from fleet.cli.bench.as_declared import require_as_declared
from fleet.cli.bench.measurement import DEFAULT_FOLDER, Out, bring
from fleet.cli.bench.report import shown as shown_report
from fleet.cli.exits import CLEAN, CommandError
from fleet.cli.fields import with_fields
from fleet.cli.interactive import code_of, confirm, terminal
from fleet.cli.options import Live, OneStack, Yes
from fleet.doctor.packages import require_benchmark_packages

if TYPE_CHECKING:
    from fleet.bench.run.launch import Launched
    from fleet.bench.run.servers import ServerPod
    from fleet.bench.run.session import Google
    from fleet.clients.kubectl import Kubectl
    from fleet.clients.stack_outputs import StackOutputs
    from fleet.jobs.display import Display
    from fleet.jobs.watching import Ended
    from fleet.plan.benchmark_price import Price
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How a run goes on, and where its results go."""

    out: Out = None
    replica: Annotated[
        Literal["servers", "canary"] | None,
        typer.Option(
            help="One replica of the servers, or the canary, at its pod with one replica's load, for `fleet bench compare`."
        ),
    ] = None
    detach: Annotated[
        bool, typer.Option("--detach", help="Start it and exit; `fleet bench fetch` downloads the results.")
    ] = False
    yes: Yes = False


@with_fields
def run(of: OneStack, changes: Changes, live: Live, wishes: Wishes) -> int:
    """Run the benchmark on a running stack, download its results, merge, certify and report them.

    Reads the stack's outputs, checks that the servers are ready, shows the cost, asks for confirmation, then starts a Job
    in the cluster. Exits with 0 when the measurement is certified, with 1 when it is not.
    """
    changes.loads()
    folder, name = of.find()
    if wishes.out is not None:
        from fleet.bench.run.fetching import require_new

        require_new(wishes.out)
    require_writable(wishes.out or DEFAULT_FOLDER)
    if not wishes.detach:
        # Checked now: merging comes last, after the money is spent.
        require_benchmark_packages()
    settings, outputs = _prepared(folder, name, changes, live.outputs)
    repeated = {"--outputs": live.outputs, "--out": wishes.out, "--root": of.root}
    fetch_options = "".join(f" {key} {shlex.quote(str(value))}" for key, value in repeated.items() if value is not None)
    return _launch(settings, outputs, live, wishes, fetch_options)


def _prepared(root: Path, stack: str, changes: Changes, outputs: Path | None) -> tuple[Settings, StackOutputs]:
    from fleet.clients import stack_outputs

    settings = settings_for(root, stack, changes)
    given = stack_outputs.read(stack, root, outputs)
    require_the_same_stack(settings, given)
    return settings, given


def _launch(settings: Settings, outputs: StackOutputs, live: Live, wishes: Wishes, fetch_options: str) -> int:
    """Start the Job and wait for it. `fetch_options`: those that a later `fleet bench fetch` needs, too."""
    from fleet.bench.run.launch import launch, require_no_other, require_prepared
    from fleet.bench.run.replica import replica
    from fleet.bench.run.servers import require_ready, server_pods
    from fleet.bench.run.session import google_of, require_bucket
    from fleet.jobs.display import shown
    from fleet.jobs.session import cluster_of
    from fleet.plan.benchmark_price import price_of

    google = None if wishes.detach else google_of(outputs)
    with cluster_of(outputs, settings, live.kubeconfig, live.context) as kubectl:
        is_live, width = terminal()
        with shown(sys.stdout, live=is_live, width=width) as display:
            _say(display, "checking the servers")
            require_prepared(kubectl, settings)
            require_no_other(kubectl, settings)
            one = None if wishes.replica is None else replica(kubectl, settings, wishes.replica)
            pods = server_pods(kubectl, settings) if one is None else (one.pod,)
            measured = settings if one is None else one.settings
            if one is None:
                require_ready(pods, settings)
            require_as_declared(kubectl, measured)
            if google is not None:
                require_bucket(google.bucket)
        agree(price_of(measured), settings, yes=wishes.yes)
        asked, pod = (None, None) if one is None else (one.asked, one.address)
        launched = launch(kubectl, settings, outputs, fetch_options=fetch_options, asked=asked, pod=pod)
        folder = wishes.out or DEFAULT_FOLDER / launched.measurement
        began = time.monotonic()
        try:
            sys.stdout.write(f"Started {launched.measurement}.\n")
            if google is None:
                sys.stdout.write(_what_goes_on(launched, outputs.cluster))
                return CLEAN
            over = _watch(kubectl, google, launched, began)
        except (KeyboardInterrupt, SystemExit) as stop:
            sys.stdout.write(f"\nStopped watching.\n{_what_goes_on(launched, outputs.cluster)}")
            return code_of(stop)
        return _finish(kubectl, google, settings, outputs, launched, over, pods, folder, began)


def _watch(kubectl: Kubectl, google: Google, launched: Launched, began: float) -> Ended:
    """Wait until the Job has ended."""
    from fleet.bench.run.watching import watch
    from fleet.jobs.display import shown

    live, width = terminal()
    with shown(sys.stdout, live=live, width=width, began=began) as display:
        return watch(kubectl, google.bucket, launched, display.state)


def _finish(
    kubectl: Kubectl,
    google: Google,
    settings: Settings,
    outputs: StackOutputs,
    launched: Launched,
    over: Ended,
    pods: tuple[ServerPod, ...],
    folder: Path,
    began: float,
) -> int:
    """Download, merge and judge the results of a Job that has ended, or print how to do so later."""
    from fleet.bench.run.session import gpu_servers
    from fleet.clients.errors import LiveError
    from fleet.jobs.display import shown
    from fleet.jobs.watching import patiently

    stored = f"The benchmark has ended. Its results are in the bucket; run: {launched.how_to_fetch()}"
    live, width = terminal()
    try:
        with shown(sys.stdout, live=live, width=width, began=began) as display:
            if over.failed:
                raise CommandError(_failed(kubectl, google, launched, over, folder, display))
            servers = gpu_servers(settings, pods)
            patiently(lambda: bring(google, launched.measurement, folder, outputs, servers, display), display.state)
    except (KeyboardInterrupt, SystemExit) as stop:
        sys.stdout.write(f"\n{stored}\n")
        return code_of(stop)
    except LiveError as error:
        raise CommandError(f"{error}\n{stored}") from None
    try:
        return shown_report([folder])
    except (KeyboardInterrupt, SystemExit) as stop:
        sys.stdout.write(f"\nThe results are in {folder}: fleet bench report {shlex.quote(str(folder))}\n")
        return code_of(stop)


def _failed(kubectl: Kubectl, google: Google, launched: Launched, over: Ended, folder: Path, display: Display) -> str:
    """Message for a failed Job: its pods' last log lines, and the runs that were stored."""
    from fleet.bench.run.fetching import fetch
    from fleet.clients.errors import LiveError
    from fleet.jobs.cluster_view import failure_lines

    lines = [f"the benchmark failed: {over.failed}"]
    if over.last is not None:
        lines.append(f"  last seen: {': '.join(filter(None, (over.last.phase, over.last.detail)))}")
    lines += failure_lines(kubectl, over.failures)
    try:
        fetch(google.bucket, launched.measurement, folder)
        runs = sorted(path.name for path in folder.glob("point-*-repeat-*") if any(path.glob("client-*.json")))
    except (LiveError, BenchmarkError, OSError) as error:
        lines.append(f"Stored results could not be downloaded: {error}")
        lines.append(f"  later: {launched.how_to_fetch()}")
        return "\n".join(lines)
    if runs:
        lines.append(f"Saved in {folder}: {', '.join(runs)}. Next: fleet bench report {shlex.quote(str(folder))}")
    else:
        lines.append(f"No run has results. Stored logs are in {folder}.")
    display.note("the Job has failed")
    return "\n".join(lines)


def agree(price: Price, settings: Settings, *, yes: bool) -> None:
    """Print the cost and ask for confirmation on a terminal. Raises CommandError."""
    words = f"{price.format()}{_cannot_be_certified(settings.benchmark.repeats)}"
    sys.stdout.write(textwrap.fill(words, min(100, terminal()[1])) + "\n")
    if not yes:
        confirm(f"Run the benchmark on stack {settings.stack} now?", "a run")


def _cannot_be_certified(repeats: int) -> str:
    from fleet.bench.certificate.limits import LEAST_REPEATS

    if repeats >= LEAST_REPEATS:
        return ""
    return f" It will not be certified: a certificate needs --repeats {LEAST_REPEATS} or more."


def _what_goes_on(launched: Launched, cluster: str) -> str:
    return (
        "The benchmark continues in the cluster and stores its results there.\n"
        f"  fetch the results later:  {launched.how_to_fetch()}\n"
        f"  stop it now:              {launched.how_to_stop()}   (cluster {cluster})\n"
    )


def require_writable(folder: Path) -> None:
    """Check before the run that results can be written. Raises CommandError."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise CommandError(f"{folder}: permission denied: {there}; pass --out with a writable folder")


def _say(display: Display, phase: str) -> None:
    from fleet.jobs.display import State

    display.state(State(phase))
