"""Compare merged results with the servers' counts, and the certificate with the fault that was set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One comparison."""

    title: str
    agrees: bool
    found: str


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
        yield Finding(
            title=f"{what} equal the servers' count",
            agrees=servers == merged + warm,
            found=f"servers counted {servers:,}; merged {merged:,} + warm-up {warm:,} = {merged + warm:,}",
        )
    failed = sum(run.failed for run in runs)
    yield Finding(title="no request failed", agrees=not failed, found=f"{failed:,} failed")


def _rates(measured: Measured) -> Iterator[Finding]:
    """The clients' rate in the steady window equals that of the servers' counters."""
    for run in measured.judged.measurement.runs:
        title = f"measured rate agrees with the servers' counters ({run.title})"
        if run.steady is None or run.server is None:
            yield Finding(title=title, agrees=False, found=f"no steady window: {run.steady_why}")
            continue
        known = sum(engine.generation_tokens for engine in run.server.engines) / run.steady.seconds
        off = run.steady.output_tokens_per_s / known - 1 if known else float("inf")
        allowed = RATE_SHARE + RATE_SECONDS / run.steady.seconds
        yield Finding(
            title=title,
            agrees=abs(off) <= allowed,
            found=f"clients {run.steady.output_tokens_per_s:,.0f}, servers {known:,.0f} output tok/s: {off:+.1%}, "
            f"allowed: {allowed:.1%} over {run.steady.seconds:.1f} s",
        )


def _verdict(measured: Measured, mode: Mode) -> Iterator[Finding]:
    """The certificate blames the faulty side only."""
    failed = [check for check in measured.judged.certificate.checks if check.verdict == "failed"]
    servers, clients = _blaming(failed, "server"), _blaming(failed, "client")
    data = _blaming(failed, "data")
    if mode != "saturated-client":
        # Its many prompts repeat by chance.
        yield Finding(title="no check blames the data", agrees=not data, found=_format(data))
    if mode == "saturated-client":
        caught = [check for check in clients if check.id in _SATURATION]
        yield Finding(title="the saturated client is found", agrees=bool(caught), found=_format(caught))
        yield Finding(title="no check blames a server", agrees=not servers, found=_format(servers))
    elif mode == "slow-server":
        yield Finding(title="the starving engine is found", agrees=bool(servers), found=_format(servers))
        yield Finding(title="no check blames a client", agrees=not clients, found=_format(clients))
    else:
        yield Finding(title="no check blames a server", agrees=not servers, found=_format(servers))


def _blaming(failed: list[Check], whom: str) -> list[Check]:
    return [check for check in failed if check.blames == whom]


def _format(checks: list[Check]) -> str:
    return "; ".join(f"{check.id}: {check.found}" for check in checks) or "nothing"
