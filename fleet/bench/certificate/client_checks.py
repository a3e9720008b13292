"""Checks of the clients: CPU, event loop, open files, ports, balance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import sqrt
from statistics import median
from typing import Final

from fleet.bench.certificate import limits
from fleet.bench.certificate.subject import (
    RUN_COMMAND,
    Rule,
    Subject,
    counted,
    lag_limit_ms,
    named,
    over_cpu,
    over_files,
    percent,
    share,
    though_idle,
)
from fleet.bench.measurement import Check, ClientResult, Run

_WITNESS: Final = f"without a witness file; {RUN_COMMAND} writes one for every client"

CPU: Final = Rule(
    id="client-cpu",
    title="Clients had CPU to spare",
    allowed=f"at most {limits.CLIENT_CPU_LIMIT:g} of a core on average (goal {limits.CLIENT_CPU_GOAL:g}) and "
    f"{limits.CLIENT_CPU_PEAK_LIMIT:g} in any second of the steady window, each client",
    why="A client is one Python thread. At its core's limit it reads answers late: the client limits throughput and adds its delay to "
    "every latency. Use more clients: lower benchmark.connectionsPerClient.",
    blames="client",
)
POD_CPU: Final = Rule(
    id="pod-cpu",
    title="Benchmark pods had CPU to spare",
    allowed=f"at most {percent(limits.POD_CPU_LIMIT, 0)} of a pod's cores in any second of the steady window",
    why="Clients wait when their pod has no free core. Use a larger benchmark.machineType, or fewer clients a pod.",
    blames="client",
)
LAG: Final = Rule(
    id="event-loop",
    title="Event loops kept up",
    allowed=f"lag (p99) at most {percent(limits.LAG_SHARE_OF_ITL, 0)} of the median time between chunks, or "
    f"{limits.LAG_FLOOR_MS:g} ms where that is more",
    why="A late event loop adds its lag to the latencies that it measures. Use more clients with fewer connections each. If the client was "
    "idle, keep other processes off its machine.",
    blames="client",
)
FILES: Final = Rule(
    id="open-files",
    title="Clients had open files to spare",
    allowed=f"at most {percent(limits.OPEN_FILES_LIMIT, 0)} of each client's limit, and no request that failed for lack of one",
    why="Every connection is an open file. At the limit requests fail, and the load drops below the intended one. Raise the limit "
    "(ulimit -n), or use fewer connections a client.",
    blames="client",
)
PORTS: Final = Rule(
    id="ports",
    title="Addresses had ports to spare",
    allowed=f"at most {limits.PORTS_LIMIT * limits.EPHEMERAL_PORTS:,.0f} connections from one address, "
    f"{percent(limits.PORTS_LIMIT, 0)} of Linux's {limits.EPHEMERAL_PORTS:,} ports to one destination",
    why="A benchmark pod calls one address of the service and needs a free port for each connection. Spread the clients over more pods.",
    blames="client",
)
BALANCE: Final = Rule(
    id="client-balance",
    title="Clients performed alike",
    allowed=f"each within {percent(limits.CLIENT_BALANCE, 0)} of the median client's rate per connection, and three standard "
    "errors of its number of requests",
    why="All clients draw from one workload and call one address. A slower one was delayed on its node, or reached other servers. Check "
    "its log, its pod's node, and the balance of the engines.",
    blames="client",
)


def checks(subject: Subject) -> Iterator[Check]:
    """All checks of the clients."""
    yield _cpu(subject)
    yield _pod_cpu(subject)
    yield _lag(subject)
    yield _files(subject)
    yield _ports(subject)
    yield _balance(subject)


def _unseen(subject: Subject, *fields: str) -> list[str]:
    unseen = [any(getattr(client, field) is None for field in fields) for _, client in subject.clients()]
    if not unseen:
        return ["there is no client"]
    return [f"{counted(sum(unseen), len(unseen), 'client')} {_WITNESS}"] if any(unseen) else []


def _cpu(subject: Subject) -> Check:
    means = [client.cpu_share_mean for _, client in subject.clients() if client.cpu_share_mean is not None]
    peaks = [client.cpu_share_peak for _, client in subject.clients() if client.cpu_share_peak is not None]
    good = ""
    if means and peaks:
        good = f"at most {max(means):.2f} of a core on average, {max(peaks):.2f} in one second"
        if max(means) > limits.CLIENT_CPU_GOAL:
            good += f"; above the goal of {limits.CLIENT_CPU_GOAL:g}: use more clients next time"
    return CPU.check(
        good=good,
        bad=[words for run, client in subject.clients() if (words := over_cpu(run, client))],
        missing=_unseen(subject, "cpu_share_mean", "cpu_share_peak"),
    )


def _pod_cpu(subject: Subject) -> Check:
    bad, blind, shares = [], 0, [0.0]
    for run in subject.runs:
        pods = {client.pod for client in run.clients if client.pod is not None}
        if len(run.pod_cores) < max(1, len(pods)) or len(run.pod_cores) != len(run.pod_cpu_peak):
            blind += 1
        for pod, (peak, cores) in enumerate(zip(run.pod_cpu_peak, run.pod_cores, strict=False)):
            shares.append(share(peak, cores))
            if not peak <= limits.POD_CPU_LIMIT * cores:
                bad.append(f"{run.title}: clients of pod {pod} used {peak:.1f} of {cores:g} cores in one second")
    missing = [f"{counted(blind, len(subject.runs), 'run')} without pod-N.json of every pod; {RUN_COMMAND} writes them"]
    return POD_CPU.check(
        good=f"at most {percent(max(shares), 0)} of a pod's cores in one second",
        bad=bad,
        missing=missing if blind else (),
    )


def _lag(subject: Subject) -> Check:
    bad, found = [], [(0.0, limits.LAG_FLOOR_MS)]
    for run, client in subject.clients():
        lag, allowed = client.loop_lag_p99_ms, lag_limit_ms(run)
        if lag is None:
            continue
        found.append((lag, allowed))
        if not lag <= allowed:
            late = f"{named(run, client)} was {lag:,.1f} ms late (p99); allowed: {allowed:,.1f} ms"
            bad.append(late + (f",{why}" if (why := though_idle(client)) else ""))
    worst, allowed = max(found, key=lambda one: share(one[0], one[1]))
    good = f"at most {worst:,.1f} ms late (p99); allowed: {allowed:,.1f} ms"
    return LAG.check(good=good, bad=bad, missing=_unseen(subject, "loop_lag_p99_ms"))


def _files(subject: Subject) -> Check:
    bad = [words for run, client in subject.clients() if (words := over_files(run, client))]
    for run in subject.runs:
        refused = sum(error.count for error in run.errors if error.kind == "open files")
        if refused:
            bad.append(f"{run.title}: {refused:,} requests failed for lack of an open file")
    shares = [
        share(client.open_files_peak, client.open_files_limit)
        for _, client in subject.clients()
        if client.open_files_peak is not None and client.open_files_limit is not None
    ]
    good = f"at most {percent(max(shares, default=0.0))} of a client's limit"
    return FILES.check(good=good, bad=bad, missing=_unseen(subject, "open_files_peak", "open_files_limit"))


def _ports(subject: Subject) -> Check:
    bad, missing, most = [], [], 0
    for run in subject.runs:
        by_address: dict[str | None, int] = defaultdict(int)
        for client in run.clients:
            by_address[_address(client)] += client.connections
        for address, connections in by_address.items():
            most = max(most, connections)
            if connections <= limits.PORTS_LIMIT * limits.EPHEMERAL_PORTS:
                continue
            if address is None:
                missing.append(f"{run.title}: {connections:,} connections from an unknown number of machines")
            else:
                bad.append(f"{run.title}: {connections:,} connections from {address}")
    return PORTS.check(good=f"at most {most:,} connections from one address", bad=bad, missing=missing)


def _address(client: ClientResult) -> str | None:
    """Address of a client, one for each pod. None: bare results do not name it."""
    if client.pod is not None:
        return f"pod {client.pod}"
    return f"node {client.node}" if client.node is not None else None


def _balance(subject: Subject) -> Check:
    bad, widest = [], 0.0
    for run in subject.runs:
        rates = {client.client: _rate_per_connection(client) for client in run.clients}
        middle = median(rates.values()) if rates else 0.0
        for client in run.clients:
            off = share(rates[client.client], middle) - 1 if middle else 0.0
            if abs(off) > widest:
                widest = abs(off)
            if not abs(off) <= _client_spread(client):
                bad.append(_out_of_balance(run, client, off))
    return BALANCE.check(
        good=f"every client within {percent(widest)} of the median one",
        bad=bad,
        # A client with CPU to spare waited for its servers.
        blames="client" if subject.saturated else "run",
    )


def _rate_per_connection(client: ClientResult) -> float:
    return share(client.total_tokens_per_s, client.connections) if client.connections > 0 else 0.0


def _client_spread(client: ClientResult) -> float:
    return limits.CLIENT_BALANCE + 3 / sqrt(max(1, client.completed))


def _out_of_balance(run: Run, client: ClientResult, off: float) -> str:
    direction = "below" if off < 0 else "above"
    return f"{named(run, client)} was {percent(abs(off))} {direction} the median client's rate per connection"
