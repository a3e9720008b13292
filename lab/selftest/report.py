"""The self-test's report as an outline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fleet.report.outline import Findings, Items, Next, Outline, Prose, Section, some

if TYPE_CHECKING:
    from lab.selftest.cost import Cost
    from lab.selftest.course import Outcome
    from lab.selftest.load import Mode

NOT_PROVED: Final = (
    "One machine only: servers, clients and bucket share cores and clock. This shows that programs, merge and certificate agree with "
    "servers that count every token. It proves nothing about a network, GKE, or vLLM's "
    "engine."
)
_EXPECTED: Final[Mapping[Mode, str]] = {
    "sound": "Expected: the default run is too short for a certificate, and a busy machine makes clients late. docs/selftest.md has "
    "options for a certified one.",
    "slow-server": "Expected: such servers get no certificate.",
    "saturated-client": "Expected: such a client gets no certificate.",
}
"""Why a self-test that agrees may have no certificate, by mode."""


def outline(outcome: Outcome, *, kept: bool) -> Outline:
    """What agrees, what a chunk costs, and the certificate. `kept`: the folder stays."""
    certificate = outcome.measured.judged.certificate
    disagree, number = sum(finding.blocks for finding in outcome.findings), len(outcome.findings)
    expected = outcome.agrees and certificate.verdict == "not certified"
    clients = "client, saturated" if outcome.before is not None else "clients"
    costs = [(clients, outcome.client), ("servers", outcome.server)]
    if outcome.before is not None:
        costs.insert(0, ("client, chunk by chunk", outcome.before))
    return Outline(
        title=f"{outcome.program}, {outcome.measured.played.seconds:.0f} s on {outcome.cores} cores",
        kind="self-test",
        verdict=f"{disagree} of {number} findings disagree." if disagree else f"All {number} findings agree.",
        tone="bad" if disagree else "good",
        body=(
            Findings(outcome.findings),
            Section(title="What a chunk costs", body=(Items(tuple(_format_cost(*cost) for cost in costs)),)),
            Section(
                title="Certificate",
                body=some(
                    Prose(f"{certificate.headline} {certificate.reason}"),
                    Prose(_EXPECTED[outcome.test.mode], "soft") if expected else None,
                ),
            ),
            Next(str(outcome.report))
            if kept
            else Prose("Pass --out DIR to keep the measurement and its page.", "soft"),
        ),
        footer=(NOT_PROVED,),
        data={
            "mode": outcome.test.mode,
            "program": outcome.program,
            "agrees": outcome.agrees,
            "client": _cost(outcome.client),
            "client_before": _cost(outcome.before) if outcome.before else None,
            "server": _cost(outcome.server),
            "cores": outcome.cores,
            "certificate": certificate.model_dump(mode="json"),
            "folder": str(outcome.test.folder) if kept else None,
            "report": str(outcome.report) if kept else None,
            "not_proved": NOT_PROVED,
        },
    )


def _format_cost(who: str, cost: Cost) -> str:
    return (
        f"{who}: {cost.us_per_chunk:,.1f} us of CPU a chunk ({cost.chunks:,} chunks, {cost.requests:,} requests); a core carries "
        f"{cost.chunks_per_s_per_core:,.0f} chunks/s, {cost.requests_per_s_per_core:,.0f} requests/s"
    )


def _cost(one: Cost) -> dict[str, Any]:
    return {
        "us_per_chunk": one.us_per_chunk,
        "chunks_per_s_per_core": one.chunks_per_s_per_core,
        "requests_per_s_per_core": one.requests_per_s_per_core,
        "chunks": one.chunks,
        "requests": one.requests,
        "cpu_seconds": one.cpu_seconds,
    }
