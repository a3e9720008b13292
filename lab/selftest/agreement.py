"""Compare merged results with the servers' counts, and the certificate with the fault that was set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from facts.finding import Finding
from fleet.bench.measurement import Check
from lab.selftest.cost import warm_up
from lab.selftest.load import Mode
from lab.selftest.measure import Measured

WARM_UPS: Final = 32
"""Most warm-up requests of a client. Source: workloads/benchmark/pods/run_plan.py."""
RATE_SHARE: Final = 0.02
RATE_SECONDS: Final = 0.5
"""Servers are read once a second, so a window's begin and end are known to half of one; 2 % on top."""
_SATURATION: Final = ("client-cpu", "event-loop", "pod-cpu")


def findings(measured: Measured, mode: Mode) -> tuple[Finding, ...]:
    """All comparisons of one measurement."""
    # A saturated client still has to read what the servers sent, so the rates differ.
    rates = () if mode == "saturated-client" else tuple(_rates(measured))
    return (*_counts(measured), *rates, *_verdict(measured, mode))


def _counts(measured: Measured) -> Iterator[Finding]:
    """Merged requests and tokens plus the warm-up equal the servers' counts."""
    runs = measured.judged.measurement.runs
    before = warm_up(measured.folder, WARM_UPS)
    engines = [engine for server in measured.servers for engine in server["engines"]]
    given = {
        "requests": (
            sum(server["accepted"] for server in measured.servers),
            sum(run.completed + run.failed for run in runs),
            before.requests,
        ),
        "output tokens": (
            sum(engine["generation_tokens"] for engine in engines),
            sum(round(run.whole.output_tokens_per_s * run.whole.seconds) for run in runs),
            before.output_tokens,
        ),
        "input tokens": (
            sum(engine["prompt_tokens"] for engine in engines),
            sum(round(run.whole.input_tokens_per_s * run.whole.seconds) for run in runs),
            before.input_tokens,
        ),
    }
    for what, (servers, merged, warm) in given.items():
        yield _finding(
            "counts",
            f"{what} equal the servers' count",
            servers == merged + warm,
            f"servers counted {servers:,}; merged {merged:,} + warm-up {warm:,} = {merged + warm:,}",
        )
    failed = sum(run.failed for run in runs)
    yield _finding("counts", "no request failed", not failed, f"{failed:,} failed")


def _rates(measured: Measured) -> Iterator[Finding]:
    """The clients' rate in the steady window equals that of the servers' counters."""
    for run in measured.judged.measurement.runs:
        title = f"measured rate agrees with the servers' counters ({run.title})"
        if run.steady is None or run.server is None:
            yield _finding("rates", title, False, f"no steady window: {run.steady_why}")
            continue
        known = sum(engine.generation_tokens for engine in run.server.engines) / run.steady.seconds
        off = run.steady.output_tokens_per_s / known - 1 if known else float("inf")
        allowed = RATE_SHARE + RATE_SECONDS / run.steady.seconds
        yield _finding(
            "rates",
            title,
            abs(off) <= allowed,
            f"clients {run.steady.output_tokens_per_s:,.0f}, servers {known:,.0f} output tok/s: {off:+.1%}, "
            f"allowed: {allowed:.1%} over {run.steady.seconds:.1f} s",
        )


def _verdict(measured: Measured, mode: Mode) -> Iterator[Finding]:
    """The certificate blames the faulty side only."""
    failed = [check for check in measured.judged.certificate.checks if check.verdict == "failed"]
    servers, clients = _blaming(failed, "server"), _blaming(failed, "client")
    data = _blaming(failed, "data")
    if mode != "saturated-client":
        # Its many prompts repeat by chance.
        yield _finding("blame", "no check blames the data", not data, _format(data))
    if mode == "saturated-client":
        caught = [check for check in clients if check.id in _SATURATION]
        yield _finding("blame", "the saturated client is found", bool(caught), _format(caught))
        yield _finding("blame", "no check blames a server", not servers, _format(servers))
    elif mode == "slow-server":
        yield _finding("blame", "the starving engine is found", bool(servers), _format(servers))
        yield _finding("blame", "no check blames a client", not clients, _format(clients))
    else:
        yield _finding("blame", "no check blames a server", not servers, _format(servers))


def _blaming(failed: list[Check], whom: str) -> list[Check]:
    return [check for check in failed if check.blames == whom]


def _format(checks: list[Check]) -> str:
    return "; ".join(f"{check.id}: {check.found}" for check in checks) or "nothing"


def _finding(id_: str, title: str, agrees: bool, found: str) -> Finding:
    return Finding(id=id_, subject=title, severity="passed" if agrees else "error", found=found)
