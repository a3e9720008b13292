"""One run's figures from its clients' requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from fleet.bench.folder import AskedSlo, MetricsSample, Witness
from fleet.bench.measurement import (
    ClientResult,
    Goodput,
    Latencies,
    Lengths,
    Rates,
    Run,
    SummedRates,
    Timeline,
)
from fleet.bench.merge.client_data import ClientData, Floats
from fleet.bench.merge.failures import together
from fleet.bench.merge.gpus import GpuSeries, gpus_of_run
from fleet.bench.merge.servers import server_metrics
from fleet.bench.merge.statistics import distribution
from fleet.bench.merge.windows import Totals, in_flight_means, rates, steady_window, totals


@dataclass
class Pool:
    """Values of many clients, seconds; one array a client."""

    ttft: list[Any] = field(default_factory=list)
    tpot: list[Any] = field(default_factory=list)
    itl: list[Any] = field(default_factory=list)
    e2e: list[Any] = field(default_factory=list)

    def add(self, data: ClientData) -> None:
        """One client's successful requests."""
        self.ttft.append(data.ttft)
        self.tpot.append(data.tpot)
        self.itl.append(data.gaps)
        self.e2e.append(data.e2e)

    def latencies(self) -> Latencies:
        """Milliseconds."""
        ttft, e2e, itl = (distribution(pool, 1e3) for pool in (self.ttft, self.e2e, self.itl))
        assert ttft is not None, "a client without a success is no client"
        assert e2e is not None
        # Where every answer arrived whole, there is no time between its tokens.
        return Latencies(ttft=ttft, tpot=None if itl is None else distribution(self.tpot, 1e3), itl=itl, e2e=e2e)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Other data of a run."""

    name: str
    point: int
    repeat: int
    witnesses: Sequence[Witness]
    """One for each client, in their order."""
    samples: Sequence[MetricsSample]
    gpus: Sequence[GpuSeries]
    gpu_problem: str | None
    slo: AskedSlo | None


def run_figures(clients: Sequence[ClientData], around: Surroundings) -> tuple[Run, list[str]]:
    """The run and remarks. The clients' times are laid to seconds since the first request."""
    first = min(float(client.start.min()) for client in clients)
    clock = around.witnesses[0].clock
    # All clients share their node's monotonic clock.
    origin = clock.wall + first - clock.perf_counter
    for client in clients:
        client.start = client.start - first
    firsts, lasts = ([float(pick(one)) for one in clients] for pick in (_first, _last))
    last = float(np.nextafter(max(lasts), np.inf))  # windows are half open, and the last chunk belongs to the run
    common = (max(firsts), min(lasts)) if max(firsts) < min(lasts) else None
    intended = sum(client.connections for client in clients)
    median_request = float(np.median(np.concatenate([client.e2e for client in clients])))
    steady = steady_window(clients, intended=intended, common=common, median_request_s=median_request)
    seconds = np.arange(ceil(last) + 1, dtype=np.float64)
    edges = np.unique(np.concatenate([seconds, [0.0, last], common or (), steady or ()]))
    good = None if around.slo is None else [_good(client, around.slo) for client in clients]
    sums = totals(clients, edges, good)

    def over(window: tuple[float, float]) -> Rates:
        return rates(sums, _cells(edges, window), window[0], window[1], origin)

    looked_at = steady or common or (0.0, last)
    wall = (origin + looked_at[0], origin + looked_at[1])
    server, remarks = server_metrics(around.samples, wall) if around.samples else (None, [])
    pool = Pool()
    for client in clients:
        pool.add(client)
    run = Run(
        name=around.name,
        point=around.point,
        repeat=around.repeat,
        connections=intended,
        clients=tuple(_client(data, seen, wall) for data, seen in zip(clients, around.witnesses, strict=True)),
        completed=sum(len(client.index) for client in clients),
        failed=sum(client.requests - len(client.index) for client in clients),
        errors=together(client.failures for client in clients),
        whole=over((0.0, last)),
        common=over(common) if common else None,
        steady=over(steady) if steady else None,
        summed=SummedRates(
            total_tokens_per_s=sum(client.own_rates[0] for client in clients),
            output_tokens_per_s=sum(client.own_rates[1] for client in clients),
        ),
        latencies=pool.latencies(),
        goodput=None if good is None else _goodput(clients, good, sums, _cells(edges, looked_at), looked_at),
        lengths=_lengths(clients, around.witnesses),
        timeline=_timeline(clients, sums, edges, seconds),
        in_flight_mean_steady=float(in_flight_means(clients, np.array(steady))[0]) if steady else None,
        server=server,
        gpus=gpus_of_run(
            around.gpus,
            window=wall,
            problem=around.gpu_problem,
        ),
    )
    return run, remarks


def _first(client: ClientData) -> float:
    return float(client.start.min())


def _last(client: ClientData) -> float:
    return float(client.end.max())


def _cells(edges: Floats, window: tuple[float, float]) -> slice:
    begin, end = np.searchsorted(edges, window)
    return slice(int(begin), int(end))


def _timeline(clients: Sequence[ClientData], sums: Totals, edges: Floats, seconds: Floats) -> Timeline:
    begins = np.searchsorted(edges, seconds)[:-1]
    outputs, inputs = np.add.reduceat(sums.output_tokens, begins), np.add.reduceat(sums.input_tokens, begins)
    return Timeline(
        at=tuple(seconds[:-1].tolist()),
        total_tokens_per_s=tuple((outputs + inputs).tolist()),
        output_tokens_per_s=tuple(outputs.tolist()),
        in_flight=tuple(in_flight_means(clients, seconds).tolist()),
    )


def _good(data: ClientData, slo: AskedSlo) -> Floats:
    """1.0 for each request within all limits. An answer of one token has no time per token and keeps that limit."""
    good = np.ones(len(data.index), dtype=bool)
    if slo.ttft_ms is not None:
        good &= data.ttft * 1e3 <= slo.ttft_ms
    if slo.tpot_ms is not None:
        each = (data.e2e - data.ttft) / np.maximum(data.output_tokens - 1, 1)
        good &= (data.output_tokens <= 1) | (each * 1e3 <= slo.tpot_ms)
    return good.astype(np.float64)


def _goodput(
    clients: Sequence[ClientData], good: Sequence[Floats], sums: Totals, cells: slice, window: tuple[float, float]
) -> Goodput:
    return Goodput(
        share=sum(float(one.sum()) for one in good) / sum(client.requests for client in clients),
        requests_per_s=float(sums.good_requests[cells].sum()) / (window[1] - window[0]),
    )


def _lengths(clients: Sequence[ClientData], witnesses: Sequence[Witness]) -> Lengths:
    inputs, outputs = (
        np.concatenate([getattr(client, f"{name}_tokens") for client in clients]) for name in ("input", "output")
    )
    asked = np.concatenate(
        [
            np.array(witness.asked_output_tokens)[client.index]
            for client, witness in zip(clients, witnesses, strict=True)
        ]
    )
    return Lengths(
        input_mean=float(inputs.mean()),
        input_min=int(inputs.min()),
        input_max=int(inputs.max()),
        output_shorter=int((outputs < asked).sum()),
        output_longer=int((outputs > asked).sum()),
    )


def _client(data: ClientData, witness: Witness, wall: tuple[float, float]) -> ClientResult:
    seconds = max(_last(data) - _first(data), 1e-9)
    cpu = _cpu_in(witness, wall)
    return ClientResult(
        client=data.number,
        connections=data.connections,
        completed=len(data.index),
        failed=data.requests - len(data.index),
        total_tokens_per_s=int(data.output_tokens.sum() + data.input_tokens.sum()) / seconds,
        chunks_per_s=float(data.chunks.sum()) / seconds,
        cpu_share_mean=float(cpu.mean()) if len(cpu) else 0.0,
        cpu_share_peak=float(cpu.max()) if len(cpu) else 0.0,
        loop_lag_p99_ms=witness.loop_lag_p99_ms,
    )


def _cpu_in(witness: Witness, wall: tuple[float, float]) -> Floats:
    """A client's CPU samples of a window; all of them where the window has none.

    Outside it the client sends all first requests together, which is no steady load.
    """
    at, shares = np.array(witness.samples.at), np.array(witness.samples.cpu_share)
    inside = (at - 1.0 >= wall[0]) & (at <= wall[1])
    found: Floats = shares[inside] if inside.any() else shares
    return found
