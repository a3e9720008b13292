"""One run's figures from its clients' requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np

from fleet.bench.folder import AskedSlo, MetricsSample, PodCourse, Witness
from fleet.bench.measurement import (
    Batches,
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
from fleet.bench.merge.clocks import Clocks
from fleet.bench.merge.failures import together
from fleet.bench.merge.gpus import GpuSeries, gpus_of_run
from fleet.bench.merge.layout import RunFiles
from fleet.bench.merge.run_clients import Client, small_number
from fleet.bench.merge.servers import server_metrics
from fleet.bench.merge.statistics import distribution, in_file
from fleet.bench.merge.windows import Placed, Totals, in_flight_means, rates, steady_window, totals

GAPS_IN_MEMORY: Final = 512 * 2**20
"""Bytes of a load's gaps from which those of further repeats lie in a file. Measured: a repeat of a twelve-node load has 160 MB of
them, and what else a merge needs is below a gigabyte."""
MAX_BATCHES: Final = 20
MIN_BATCHES: Final = 3
"""Fewest pieces for a line."""


@dataclass
class Pool:
    """Sorted values of many clients, seconds; one array a client."""

    ttft: list[Floats] = field(default_factory=list)
    tpot: list[Floats] = field(default_factory=list)
    itl: list[Floats] = field(default_factory=list)
    e2e: list[Floats] = field(default_factory=list)

    def add(self, data: ClientData) -> None:
        """One client's successful requests."""
        self.ttft.append(np.sort(data.ttft))
        self.tpot.append(np.sort(data.tpot))
        self.itl.append(data.gaps)
        self.e2e.append(np.sort(data.e2e))

    def add_pool(self, other: Pool) -> None:
        """All of another pool."""
        full = sum(gaps.nbytes for gaps in self.itl) >= GAPS_IN_MEMORY
        self.ttft += other.ttft
        self.tpot += other.tpot
        self.itl += in_file(other.itl) if full else other.itl
        self.e2e += other.e2e

    def latencies(self) -> Latencies:
        """Milliseconds."""
        ttft, e2e = distribution(self.ttft, 1e3), distribution(self.e2e, 1e3)
        if ttft is None or e2e is None:
            raise ValueError("a pool without a successful request")
        itl = distribution(self.itl, 1e3)
        # Where every answer arrived whole, there is no time between its tokens.
        return Latencies(ttft=ttft, tpot=None if itl is None else distribution(self.tpot, 1e3), itl=itl, e2e=e2e)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Other data of a run."""

    pods: Sequence[PodCourse]
    samples: Sequence[MetricsSample]
    gpus: Sequence[GpuSeries]
    gpu_problem: str | None
    expected_gpus: int | None
    slo: AskedSlo | None


def run_figures(
    files: RunFiles, clients: Sequence[Client], clocks: Clocks, around: Surroundings
) -> tuple[Run, Pool, list[str]]:
    """The run, its pooled latencies for its point, and remarks."""
    placed, origin = _place(clients, clocks)
    intended = sum(client.data.connections for client in clients)
    firsts = [float(one.start.min()) for one in placed]
    lasts = [float(one.end.max()) for one in placed]
    last = float(np.nextafter(max(lasts), np.inf))  # windows are half open, and the last chunk belongs to the run
    common = (max(firsts), min(lasts)) if max(firsts) < min(lasts) else None
    median_request = float(np.median(np.concatenate([client.data.e2e for client in clients])))
    steady = steady_window(
        placed,
        intended=intended,
        common=common,
        median_request_s=median_request,
        limited=any(client.data.limited_rate for client in clients),
    )
    seconds = np.arange(ceil(last) + 1, dtype=np.float64)
    pieces = _piece_edges(steady.window, median_request)
    edges = np.unique(np.concatenate([seconds, [0.0, last], common or (), steady.window or (), pieces]))
    good = [_good(client.data, around.slo) for client in clients] if around.slo is not None else None
    sums = totals(placed, edges.tolist(), good)

    def over(window: tuple[float, float]) -> Rates:
        return rates(sums, _cells(edges, window), window[0], window[1], origin)

    whole = over((0.0, last))
    steady_rates = over(steady.window) if steady.window else None
    looked_at = steady.window or common or (0.0, last)
    wall = (origin + looked_at[0], origin + looked_at[1])
    remarks = [*clocks.remarks, *(f"{client.data.file}: {text}" for client in clients for text in client.data.remarks)]
    server = None
    if around.samples and clocks.known_wall:
        server, said = server_metrics(around.samples, wall, origin)
        remarks += said
    elif around.samples:
        remarks.append(
            "the servers' metrics are excluded: without a client's wall clock they cannot be aligned with the run"
        )
    gpus = None
    if clocks.known_wall:
        gpus = gpus_of_run(
            around.gpus,
            window=wall,
            whole=(origin, origin + last),
            total_tokens_per_s=over(looked_at).total_tokens_per_s,
            expected=around.expected_gpus,
            problem=around.gpu_problem,
        )
    elif around.gpus:
        remarks.append(
            "the GPUs' readings are excluded: without a client's wall clock they cannot be aligned with the run"
        )
    if (server is not None or gpus is not None) and steady.window is None:
        remarks.append(
            "no steady window: servers and GPUs are measured over the " + ("common one" if common else "whole run")
        )
    pool = Pool()
    for client in clients:
        pool.add(client.data)
    cores, peaks = _pods(around.pods, clients, wall)
    run = Run(
        name=files.name,
        point=files.point,
        repeat=files.repeat,
        connections=intended,
        clients=tuple(_client_result(client, one, origin, wall) for client, one in zip(clients, placed, strict=True)),
        completed=sum(len(client.data.index) for client in clients),
        failed=sum(client.data.failed for client in clients),
        errors=together(client.data.failures for client in clients),
        clock=clocks.kind,
        clock_uncertainty_s=clocks.uncertainty_s,
        whole=whole,
        common=over(common) if common else None,
        steady=steady_rates,
        steady_why=steady.why,
        summed=SummedRates(
            total_tokens_per_s=sum(client.data.own_rates[0] for client in clients),
            output_tokens_per_s=sum(client.data.own_rates[1] for client in clients),
            requests_per_s=sum(client.data.own_rates[2] for client in clients),
        ),
        latencies=pool.latencies(),
        goodput=_goodput(clients, good, sums, edges, looked_at, around.slo),
        lengths=_lengths(clients),
        timeline=_timeline(placed, sums, edges, seconds),
        batches=_batches(sums, edges, pieces),
        in_flight_mean_steady=(
            float(in_flight_means(placed, np.array(steady.window))[0]) if steady.window is not None else None
        ),
        start_skew_s=max(firsts) - min(firsts),
        server=server,
        gpus=gpus,
        pod_cores=cores,
        pod_cpu_peak=peaks,
    )
    return run, pool, remarks


def _place(clients: Sequence[Client], clocks: Clocks) -> tuple[list[Placed], float]:
    """Requests in seconds since the first one, and that one's moment."""
    origin = min(clock.at(client.data.first) for client, clock in zip(clients, clocks.clocks, strict=True))
    starts = [clock.since(origin, client.data.start) for client, clock in zip(clients, clocks.clocks, strict=True)]
    shift = min(float(start.min()) for start in starts)
    placed = [Placed(data=client.data, start=start - shift) for client, start in zip(clients, starts, strict=True)]
    return placed, (origin + shift if clocks.known_wall else 0.0)


def _cells(edges: Floats, window: tuple[float, float]) -> slice:
    begin, end = np.searchsorted(edges, window)
    return slice(int(begin), int(end))


def _piece_edges(window: tuple[float, float] | None, median_request: float) -> Floats:
    """Equal pieces of at least one median request, so that a wave's prefill does not lie in one piece alone."""
    if window is None:
        return np.empty(0)
    count = min(MAX_BATCHES, int((window[1] - window[0]) / max(median_request, 1e-9)))
    return np.linspace(*window, count + 1) if count >= MIN_BATCHES else np.empty(0)


def _batches(sums: Totals, edges: Floats, pieces: Floats) -> Batches | None:
    if not len(pieces):
        return None
    length = float(pieces[1] - pieces[0])
    cells = [_cells(edges, (low, high)) for low, high in pairwise(pieces.tolist())]
    both = sums.output_tokens + sums.input_tokens
    values = np.array([both[cell].sum() / length for cell in cells])
    places = np.linspace(0.5, len(values) - 0.5, len(values)) / len(values)
    slope = float(np.polyfit(places, values, 1)[0])
    mean = float(values.mean())
    return Batches(
        seconds=length, total_tokens_per_s=tuple(values.tolist()), drift_share=slope / mean if mean > 0 else 0.0
    )


def _timeline(placed: Sequence[Placed], sums: Totals, edges: Floats, seconds: Floats) -> Timeline:
    bounds = np.searchsorted(edges, seconds)
    begins = bounds[:-1]
    outputs, inputs = np.add.reduceat(sums.output_tokens, begins), np.add.reduceat(sums.input_tokens, begins)
    return Timeline(
        at=tuple(seconds[:-1].tolist()),
        total_tokens_per_s=tuple((outputs + inputs).tolist()),
        output_tokens_per_s=tuple(outputs.tolist()),
        in_flight=tuple(in_flight_means(placed, seconds).tolist()),
    )


def _good(data: ClientData, slo: AskedSlo | None) -> Floats:
    """1.0 for each request within all limits. An answer of one token has no time per token and keeps that limit."""
    good = np.ones(len(data.index), dtype=bool)
    if slo is not None and slo.ttft_ms is not None:
        good &= data.ttft * 1e3 <= slo.ttft_ms
    if slo is not None and slo.e2e_ms is not None:
        good &= data.e2e * 1e3 <= slo.e2e_ms
    if slo is not None and slo.tpot_ms is not None:
        each = (data.e2e - data.ttft) / np.maximum(data.output_tokens - 1, 1)
        good &= (data.output_tokens <= 1) | (each * 1e3 <= slo.tpot_ms)
    return good.astype(np.float64)


def _goodput(
    clients: Sequence[Client],
    good: Sequence[Floats] | None,
    sums: Totals,
    edges: Floats,
    window: tuple[float, float],
    slo: AskedSlo | None,
) -> Goodput | None:
    if good is None or slo is None:
        return None
    cells, seconds = _cells(edges, window), window[1] - window[0]
    count = int(sum(float(one.sum()) for one in good))
    return Goodput(
        ttft_ms=slo.ttft_ms,
        tpot_ms=slo.tpot_ms,
        e2e_ms=slo.e2e_ms,
        requests=count,
        share=count / sum(client.data.requests for client in clients),
        requests_per_s=float(sums.good_requests[cells].sum()) / seconds,
        output_tokens_per_s=float(sums.good_output_tokens[cells].sum()) / seconds,
    )


def _lengths(clients: Sequence[Client]) -> Lengths:
    inputs = np.concatenate([client.data.input_tokens for client in clients])
    outputs = np.concatenate([client.data.output_tokens for client in clients])
    shorter = longer = 0
    for client in clients:
        if client.witness is not None:
            asked = np.array(client.witness.asked_output_tokens)[client.data.index]
            shorter += int((client.data.output_tokens < asked).sum())
            longer += int((client.data.output_tokens > asked).sum())
    return Lengths(
        asked_known=all(client.witness is not None for client in clients),
        input_mean=float(inputs.mean()),
        input_min=int(inputs.min()),
        input_max=int(inputs.max()),
        output_mean=float(outputs.mean()),
        output_min=int(outputs.min()),
        output_max=int(outputs.max()),
        output_shorter=shorter,
        output_longer=longer,
    )


def _client_result(client: Client, placed: Placed, origin: float, wall: tuple[float, float]) -> ClientResult:
    data, witness = client.data, client.witness
    first, last = float(placed.start.min()), float(placed.end.max())
    seconds = max(last - first, 1e-9)
    outputs, inputs = int(data.output_tokens.sum()), int(data.input_tokens.sum())
    cpu = np.empty(0)
    if witness is not None:
        cpu = _cpu_in(witness, wall)[1]
    tpot = data.tpot
    return ClientResult(
        client=client.number,
        pod=witness.pod if witness else None,
        node=witness.node if witness else None,
        connections=data.connections,
        seed=small_number(data.metadata.get("seed", ""), 2**64 - 1),
        completed=len(data.index),
        failed=data.failed,
        total_tokens_per_s=(outputs + inputs) / seconds,
        output_tokens_per_s=outputs / seconds,
        first_request=origin + first,
        last_end=origin + last,
        ttft_p50_ms=float(np.median(data.ttft)) * 1e3,
        tpot_p50_ms=float(np.median(tpot)) * 1e3 if len(tpot) and len(data.gaps) else None,
        chunks_per_s=float(data.chunks.sum()) / seconds,
        cpu_share_mean=float(cpu.mean()) if len(cpu) else None,
        cpu_share_peak=float(cpu.max()) if len(cpu) else None,
        loop_lag_p99_ms=witness.loop_lag_p99_ms if witness else None,
        open_files_peak=max(witness.samples.open_files, default=None) if witness else None,
        open_files_limit=witness.open_files_limit if witness else None,
        go_at=witness.barrier.go_at if witness else None,
        released_at=witness.barrier.released_at if witness else None,
    )


def _cpu_in(witness: Witness, wall: tuple[float, float]) -> tuple[Floats, Floats]:
    """A client's CPU samples of a window, moments and shares of a core; all of them where the window has none.

    Outside it the client sends all first requests together, which is no steady load.
    """
    at, shares = np.array(witness.samples.at), np.array(witness.samples.cpu_share)
    inside = (at - 1.0 >= wall[0]) & (at <= wall[1])
    return (at[inside], shares[inside]) if inside.any() else (at, shares)


def _pods(
    pods: Sequence[PodCourse], clients: Sequence[Client], wall: tuple[float, float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Cores of each pod, and the most that its clients used together in one second of the window."""
    cores, peaks = [], []
    for pod in pods:
        cores.append(pod.cores)
        by_second: dict[int, float] = {}
        for client in clients:
            if client.witness is None or client.witness.pod != pod.pod:
                continue
            mine: dict[int, float] = {}
            for at, share in zip(*_cpu_in(client.witness, wall), strict=True):
                # One of a client's shares a second: its last sample is of a part of one, and shares do not add up over time.
                mine[round(at)] = max(mine.get(round(at), 0.0), float(share))
            for second, share in mine.items():
                by_second[second] = by_second.get(second, 0.0) + share
        peaks.append(max(by_second.values(), default=0.0))
    return tuple(cores), tuple(peaks)
