"""`fleet bench selftest`: the whole benchmark on this machine, against simulated servers that count every token."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fleet.cli.exits import CLEAN, FINDINGS, CommandError
from fleet.cli.options import Format
from fleet.doctor.packages import require_benchmark_packages
from fleet.report.terminal import PLAIN_WIDTH, Page, stdout_paper

if TYPE_CHECKING:
    from fleet.report.terminal import Page
    from lab.selftest.cost import Cost
    from lab.selftest.course import Outcome
    from lab.selftest.load import Mode, SelfTest

_EVERY_SECONDS: Final = 5.0
"""Seconds between progress lines in a log."""
_EXPECTED: Final[Mapping[Mode, str]] = {
    "sound": "Expected: the default run is too short for a certificate, and a busy machine makes clients late. docs/selftest.md has "
    "options for a certified one.",
    "slow-server": "Expected: such servers get no certificate.",
    "saturated-client": "Expected: such a client gets no certificate.",
}
"""Why a self-test that agrees may have no certificate, by mode."""


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
    from fleet.bench.run.display import shown
    from fleet.clients.scratch import scratch
    from fleet.clients.stopping import stopped_by_exception
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
    from lab.selftest.course import as_plain

    if format_ == "json":
        plain = as_plain(outcome)
        if not kept:
            plain["folder"] = plain["report"] = None
        sys.stdout.write(json.dumps(plain, indent=1) + "\n")
    else:
        _print(outcome, kept=kept)
    return CLEAN if outcome.agrees else FINDINGS


def _print(outcome: Outcome, *, kept: bool) -> None:
    from lab.selftest.course import NOT_PROVED

    page = Page(stdout_paper())
    disagree = sum(not finding.agrees for finding in outcome.findings)
    number = len(outcome.findings)
    if disagree:
        page.prose(f"{disagree} of {number} findings disagree.", indent=0, style="bold red")
    else:
        page.prose(f"All {number} findings agree.", indent=0, style="bold green")
    page.prose(
        f"{outcome.program}, {outcome.measured.played.seconds:.0f} s on {outcome.cores} cores", indent=0, style="dim"
    )
    page.blank()
    for one in outcome.findings:
        mark = ("✓ ", "green") if one.agrees else ("✗ ", "bold red")
        page.line(mark, (one.title, ""))
        page.prose(one.found, indent=4, style="dim")
    page.blank()
    page.line(("What a chunk costs", "bold"))
    if outcome.before is not None:
        _cost(page, "client, chunk by chunk", outcome.before)
    _cost(page, "client, saturated" if outcome.before is not None else "clients", outcome.client)
    _cost(page, "servers", outcome.server)
    page.blank()
    page.line(("Certificate", "bold"))
    certificate = outcome.measured.judged.certificate
    page.prose(f"{certificate.headline} {certificate.reason}", indent=2)
    if outcome.agrees and certificate.verdict == "not certified":
        page.prose(_EXPECTED[outcome.test.mode], indent=2, style="dim")
    page.blank()
    page.prose(NOT_PROVED, indent=0, style="dim")
    page.blank()
    if kept:
        page.pointer(str(outcome.report))
    else:
        page.prose("Pass --out DIR to keep the measurement and its page.", indent=0, style="dim")
    page.print()


def _cost(page: Page, who: str, cost: Cost) -> None:
    page.prose(
        f"{who}: {cost.us_per_chunk:,.1f} us of CPU a chunk ({cost.chunks:,} chunks, {cost.requests:,} requests); a core carries "
        f"{cost.chunks_per_s_per_core:,.0f} chunks/s, {cost.requests_per_s_per_core:,.0f} requests/s",
        indent=2,
    )
