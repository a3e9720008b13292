"""The whole self-test: one measurement, or two where a client is saturated by its measured cost."""

from __future__ import annotations

from dataclasses import dataclass

from facts.finding import Finding
from fleet.clients.scratch import scratch
from lab.selftest.agreement import findings
from lab.selftest.cost import Cost, client_cost
from lab.selftest.load import SERVERS, SelfTest, calibrating, saturating, slow_server, sound
from lab.selftest.measure import Measured, measure


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a self-test."""

    measured: Measured
    findings: tuple[Finding, ...]
    client: Cost
    """In the measurement that is judged."""
    before: Cost | None
    """The client before it was saturated, which sets the offered load."""


def run(test: SelfTest) -> Outcome:
    """Run it. Raises BenchmarkError where a part cannot run."""
    before: Cost | None = None
    if test.mode == "saturated-client":
        with scratch("selftest") as made:
            first = measure(calibrating(), servers=1, folder=made / "measurement", vllm=test.vllm)
            before = client_cost(first.folder)
        load = saturating(test, before.us_per_chunk)
    else:
        load = slow_server(test) if test.mode == "slow-server" else sound(test)
    measured = measure(load, servers=SERVERS, folder=test.folder, vllm=test.vllm)
    return Outcome(
        measured=measured, findings=findings(measured, test.mode), client=client_cost(test.folder), before=before
    )
