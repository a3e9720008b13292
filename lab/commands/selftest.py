"""`fleet bench selftest`: the whole benchmark on this machine, against simulated servers that count every token."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fleet.cli.documents import show
from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.options import Format
from fleet.doctor.packages import require_benchmark_packages
from fleet.report.terminal import PLAIN_WIDTH

if TYPE_CHECKING:
    from lab.selftest.course import Outcome
    from lab.selftest.load import Mode, SelfTest

_EVERY_SECONDS: Final = 5.0
"""Seconds between progress lines in a log."""


def selftest(
    clients: Annotated[
        int | None, typer.Option("--clients", metavar="N", min=1, max=256, help="Client processes. Default: 2.")
    ] = None,
    connections: Annotated[
        int,
        typer.Option("--connections", metavar="N", min=1, max=20000, help="Requests in flight, all clients together."),
    ] = 64,
    servers: Annotated[int, typer.Option("--servers", metavar="N", min=1, max=64, help="Server processes.")] = 2,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            metavar="N",
            min=2,
            help="Requests of all clients in each repeat. Default: five for each connection.",
        ),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", min=1, max=20, help="Runs of the load. Default: 1.")
    ] = None,
    vllm: Annotated[
        Path | None,
        typer.Option(
            "--vllm",
            metavar="PYTHON",
            help="Python of an environment with vLLM 0.18.1, whose own client is used. Default: the small client.",
        ),
    ] = None,
    slow_server: Annotated[
        bool,
        typer.Option("--slow-server", help="Slow servers, each with a starving engine: no check may blame a client."),
    ] = False,
    saturate: Annotated[
        bool, typer.Option("--saturate", help="Overload one client: the certificate must find it.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Keep the measurement and its report here.")
    ] = None,
    format_: Format = "text",
) -> int:
    """Run the whole benchmark on this machine against simulated servers, and check that everything agrees.

    Runs the pods' programs, clients, a bucket, fetch, merge and certificate. The servers count every token. Reports what a chunk costs a
    client here. Exits with 1 when totals, rates or the certificate's blame disagree.
    """
    require_benchmark_packages()
    from fleet.clients.scratch import scratch
    from fleet.clients.stopping import stopped_by_exception
    from fleet.jobs.display import shown
    from lab.selftest.course import run
    from lab.selftest.load import SelfTest

    if slow_server and saturate:
        raise CommandError("--slow-server and --saturate cannot be combined")
    given = {"--clients": clients, "--requests": requests, "--repeats": repeats}
    if saturate and (useless := [name for name, value in given.items() if value is not None]):
        raise CommandError(
            f"--saturate and {useless[0]} cannot be combined: one client runs once, with a number of requests from its measured cost"
        )
    mode: Mode = "slow-server" if slow_server else "saturated-client" if saturate else "sound"

    def asked(folder: Path) -> SelfTest:
        return SelfTest(
            mode=mode,
            clients=1 if saturate else clients or 2,
            connections=connections,
            servers=servers,
            requests=requests or 5 * connections,
            repeats=repeats or 1,
            vllm=vllm.absolute() if vllm else None,
            folder=folder,
        )

    def played(folder: Path) -> Outcome:
        test = asked(folder)
        live, width = _stderr_terminal()
        with shown(sys.stderr, live=live, width=width, every=_EVERY_SECONDS) as display:
            return run(test, display)

    # Servers and pods run in separate sessions and must be ended here.
    with stopped_by_exception():
        if out is not None:
            return _show(played(out), format_, kept=True)
        with scratch("selftest") as folder:
            return _show(played(folder), format_, kept=False)


def _stderr_terminal() -> tuple[bool, int]:
    """Whether stderr shows a live line, and how wide it is."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb" or not sys.stderr.encoding.lower().startswith("utf"):
        return False, PLAIN_WIDTH
    return True, os.get_terminal_size(sys.stderr.fileno()).columns or PLAIN_WIDTH


def _show(outcome: Outcome, format_: Format, *, kept: bool) -> int:
    from lab.selftest.report import outline

    show(outline(outcome, kept=kept), format_)
    return CLEAN if outcome.agrees else FINDINGS
