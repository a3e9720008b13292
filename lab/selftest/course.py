"""The whole self-test: one measurement, or two where a client is saturated by its measured cost."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from facts.finding import Finding, block
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import Witness
from fleet.bench.report.write import write_report
from fleet.clients.scratch import scratch
from fleet.jobs.display import Display, State
from lab.selftest.agreement import findings
from lab.selftest.cost import Cost, client_cost, server_cost
from lab.selftest.load import SelfTest, calibrating, saturating, slow_server, sound
from lab.selftest.measure import Measured, measure
from lab.selftest.true_client import require_vllm


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a self-test."""

    test: SelfTest
    program: str
    """The client, as its witness names it."""
    measured: Measured
    findings: tuple[Finding, ...]
    client: Cost
    """In the measurement that is judged."""
    server: Cost
    before: Cost | None
    """The client before it was saturated, which sets the offered load."""
    report: Path
    """The report's page."""
    cores: int

    @property
    def agrees(self) -> bool:
        """Whether all findings agree."""
        return not block(self.findings)


def run(test: SelfTest, display: Display) -> Outcome:
    """Run it; `display` shows progress. Raises BenchmarkError where a part cannot run."""
    if not Path("/proc/self/fd").is_dir():
        raise BenchmarkError("a self-test needs Linux: benchmark pods read open files and CPU from /proc")
    # Missing packages are found now and not after a minute. The servers and the small client need aiohttp.
    import aiohttp  # noqa: F401

    if test.vllm is not None:
        require_vllm(test.vllm)
    before: Cost | None = None
    if test.mode == "saturated-client":
        with scratch("selftest") as made:
            display.note("measuring what a chunk costs this client")
            folder = made / "measurement"
            first = measure(calibrating(), servers=1, folder=folder, vllm=test.vllm, show=display.state)
            before = client_cost(first.folder)
        load = saturating(test, before.us_per_chunk)
        display.note(
            f"offering {load.connections / load.node.pace.fixed_s:,.0f} chunks/s to one client, of {load.requests_per_client:,} requests"
        )
    else:
        load = slow_server(test) if test.mode == "slow-server" else sound(test)
        display.note(
            f"{load.clients * load.requests_per_client * load.repeats:,} requests, {load.connections} in flight"
        )
    measured = measure(load, servers=test.servers, folder=test.folder, vllm=test.vllm, show=display.state)
    display.state(State("drawing the report"))
    return Outcome(
        test=test,
        program=_program(test.folder),
        measured=measured,
        findings=findings(measured, test.mode),
        client=client_cost(test.folder),
        server=server_cost(measured.servers),
        before=before,
        report=write_report(measured.judged, test.folder / "report", source=test.folder),
        cores=len(os.sched_getaffinity(0)),
    )


def _program(folder: Path) -> str:
    file = min(folder.glob("*/client-*.witness.json"))
    return Witness.model_validate_json(file.read_bytes()).program
