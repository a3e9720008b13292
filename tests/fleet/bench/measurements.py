"""Believable measurements without a cluster, for tests of whatever reads merged.json.

Everything is drawn from the article's own figures (2,000 requests in flight and some 95,000 tok/s a node, 24 s a request)
with a fixed seed: two calls with the same arguments give equal models. Each part can be replaced by `model_copy(update=...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.bench.folder import Asked, AskedCost, AskedPoint, AskedShape, AskedSlo, AskedWorkload
from fleet.bench.measurement import (
    Batches,
    Certificate,
    Check,
    ClientResult,
    Distribution,
    EngineResult,
    ErrorKind,
    Estimate,
    Goodput,
    GpuReading,
    Gpus,
    GpuTimeline,
    Histogram,
    Judged,
    Latencies,
    Lengths,
    Measurement,
    Point,
    Prompts,
    Rates,
    Run,
    ServerMetrics,
    ServerTimeline,
    SummedRates,
    Timeline,
)
from fleet.bench.student_t import two_sided

Numbers = NDArray[np.float64]

BEGAN = 1_795_000_000.0
"""First request of the first run, seconds since 1970."""
RUN_SECONDS = 124
WARM_UP_SECONDS = 30
TAIL_SECONDS = 26
FIRST_SEED = 1_203_331
WHOLE_SHARE = 0.83
"""Rate over the whole run, warm-up and tail included, over the steady one."""
TOTAL_PER_NODE = 95_000.0
"""Tokens a second at 2,000 requests in flight. Source: the article, first run."""
IN_FLIGHT_PER_NODE = 2_000
TOKENS_PER_REQUEST = 1_152
SECONDS_PER_REQUEST = 24.0
FLAGS: dict[str, str | int | float | bool] = {
    "data-parallel-size": 8,
    "max-model-len": 2560,
    "max-num-batched-tokens": 16384,
    "kv-cache-dtype": "fp8_e4m3",
    "gpu-memory-utilization": 0.92,
    "enable-prefix-caching": True,
    "enable-chunked-prefill": True,
    "attention-backend": "FLASHINFER",
    "optimization-level": 3,
    "speculative-config.method": "mtp",
    "speculative-config.num_speculative_tokens": 1,
}


def an_asked(
    *,
    replicas: int = 12,
    in_flight_per_node: Sequence[int] = (IN_FLIGHT_PER_NODE,),
    connections_per_client: int = 1_000,
    repeats: int = 3,
    workload: str = "article",
    engines: int = 8,
    **changes: Any,
) -> Asked:
    """run.json of the record's shape; further keywords replace fields."""
    points = tuple(
        AskedPoint(connections=each * replicas, clients=max(1, -(-each * replicas // connections_per_client)))
        for each in in_flight_per_node
    )
    fields: dict[str, Any] = {
        "name": "bench-20261121-a1b2c3d4",
        "created": "2026-11-21T09:30:00Z",
        "stack": "spot",
        "profile": "record",
        "served_model": "qwen3.5-27b",
        "model_revision": "4b1bd2f0c7a35b1d9a3e6c58f0a7de1293cb64aa",
        "image": f"v0.18.0@sha256:{'5f0c' * 16}",
        "engines_per_replica": engines,
        "speculative_tokens": 1,
        "workload": AskedWorkload(
            name=workload,
            kind="random",
            arguments={
                "dataset-name": "random",
                "random-input-len": "768",
                "random-output-len": "384",
                "random-range-ratio": "0.3333",
            },
            ignore_eos=True,
        ),
        "points": points,
        "repeats": repeats,
        "prompts_per_client": 4_000,
        "pods": -(-max(point.clients for point in points) // 16),
        "slo": AskedSlo(ttft_ms=10_000, tpot_ms=60),
        "shape": AskedShape(
            model="Qwen/Qwen3.5-27B-FP8",
            engine_version="0.18.0",
            machine_type="a4-highgpu-8g",
            replicas=replicas,
            gpus_per_replica=8,
            flags=FLAGS,
            env={"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"},
            routing="cluster-ip",
            workload=workload,
        ),
        "cost": AskedCost(usd_per_hour=32.61 * replicas + 2.2, at_least=True, capacity="spot"),
    }
    return Asked(**{**fields, **changes})


def distribution(values: Numbers, *, count: int | None = None, bins: int = 120) -> Distribution:
    """Statistics of the values as those of `count` ones; the histogram's edges grow by a constant factor."""
    number = len(values) if count is None else count
    low, high = float(values.min()), float(values.max())
    edges = np.geomspace(low, high, bins + 1) if 0 < low < high else np.linspace(low, low + 1, bins + 1)
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
    counts, _ = np.histogram(values, edges)
    scaled = np.floor(counts * (number / len(values))).astype(int)
    scaled[int(scaled.argmax())] += number - int(scaled.sum())
    p10, p50, p90, p95, p99, p999 = (float(np.percentile(values, each)) for each in (10, 50, 90, 95, 99, 99.9))
    return Distribution(
        count=number,
        mean=float(values.mean()),
        std=float(values.std()),
        min=low,
        p10=p10,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        p999=p999,
        max=high,
        histogram=Histogram(edges=tuple(edges.tolist()), counts=tuple(scaled.tolist())),
    )


@cache
def latencies(load: float = 1.0, requests: int = 96_000) -> Latencies:
    """Like the article's second run at 2,000 in flight a node (load 1): TTFT median 6.1 s, TPOT 45 ms, ITL with a long tail."""
    dice = np.random.default_rng(7)
    ttft = dice.normal(6_100 * load, 1_900 * load, 6_000).clip(180, 14_000 * max(load, 0.1))
    tpot = dice.normal(45.5 * (0.6 + 0.4 * load), 9.5, 6_000).clip(14, 90)
    steady = dice.lognormal(np.log(72), 0.18, 9_400)
    stalled = dice.lognormal(np.log(450), 0.35, 600)
    itl = np.concatenate([steady, stalled]) * (0.6 + 0.4 * load)
    e2e = ttft + tpot * dice.uniform(255, 511, 6_000)
    return Latencies(
        ttft=distribution(ttft, count=requests),
        tpot=distribution(tpot, count=requests),
        itl=distribution(itl, count=requests * 201),
        e2e=distribution(e2e, count=requests),
    )


def rates(total: float, began: float, ended: float) -> Rates:
    """A window of that rate, a third of it output, as the article's workload has it."""
    return Rates(
        began=began,
        ended=ended,
        seconds=ended - began,
        total_tokens_per_s=total,
        input_tokens_per_s=total * 2 / 3,
        output_tokens_per_s=total / 3,
        requests_per_s=total / TOKENS_PER_REQUEST,
    )


def a_client(
    number: int,
    total: float,
    connections: int,
    began: float,
    dice: np.random.Generator,
    *,
    first_seed: int = FIRST_SEED,
    witnessed: bool = True,
) -> ClientResult:
    """One client at some 40 % of a core."""
    start = began + float(dice.uniform(0.0, 0.12))
    end = began + RUN_SECONDS - float(dice.uniform(0, 6))
    pod = number // 16
    return ClientResult(
        client=number,
        pod=pod if witnessed else None,
        node=f"gke-bench-c4-{pod:02d}" if witnessed else None,
        connections=connections,
        seed=(first_seed + number) if witnessed else None,
        completed=4_000,
        failed=0,
        total_tokens_per_s=total * float(dice.normal(1.0, 0.006)),
        output_tokens_per_s=total / 3 * float(dice.normal(1.0, 0.006)),
        first_request=start,
        last_end=end,
        ttft_p50_ms=6_100 * float(dice.normal(1, 0.01)),
        tpot_p50_ms=45.4 * float(dice.normal(1, 0.005)),
        chunks_per_s=total / 3 / 1.9,
        cpu_share_mean=float(dice.uniform(0.33, 0.38)) if witnessed else None,
        cpu_share_peak=float(dice.uniform(0.41, 0.48)) if witnessed else None,
        loop_lag_p99_ms=float(dice.uniform(1.5, 4.0)) if witnessed else None,
        open_files_peak=connections + 40 if witnessed else None,
        open_files_limit=65_536 if witnessed else None,
        go_at=began if witnessed else None,
        released_at=began + float(dice.uniform(0, 0.004)) if witnessed else None,
    )


def a_timeline(total: float, connections: int, dice: np.random.Generator) -> Timeline:
    """Second by second: warm-up, plateau, tail. Chunks of output lie lower while the first prompts are read."""
    at = np.arange(RUN_SECONDS, dtype=float)
    rise = (at / WARM_UP_SECONDS).clip(0, 1) ** 0.7
    fall = ((RUN_SECONDS - at) / TAIL_SECONDS).clip(0, 1)
    shape = np.minimum(rise, fall)
    totals = (total * shape * dice.normal(1, 0.03, RUN_SECONDS)).clip(0)
    outputs = (total / 3 * shape * dice.normal(1, 0.02, RUN_SECONDS)).clip(0)
    busy = connections * np.minimum((at + 1).clip(0, 1), fall)
    return Timeline(
        at=tuple(at.tolist()),
        total_tokens_per_s=tuple(totals.tolist()),
        output_tokens_per_s=tuple(outputs.tolist()),
        in_flight=tuple(busy.tolist()),
    )


def a_server(total: float, replicas: int, engines: int, connections: int, dice: np.random.Generator) -> ServerMetrics:
    """Every rank alike within a per cent or so, as round robin leaves them."""
    steady = RUN_SECONDS - WARM_UP_SECONDS - TAIL_SECONDS
    each = total / 3 * steady / (replicas * engines)
    running = min(250.0, connections / (replicas * engines))
    waiting = max(0.0, connections / (replicas * engines) - 225)
    ranks = tuple(
        EngineResult(
            server=f"10.8.{server}.7",
            engine=str(rank),
            generation_tokens=each * float(dice.normal(1, 0.008)),
            prompt_tokens=2 * each * float(dice.normal(1, 0.008)),
            running_mean=running * 0.9 * float(dice.normal(1, 0.01)),
            running_peak=running * float(dice.uniform(0.98, 1.02)),
            waiting_mean=waiting * 0.6 * float(dice.uniform(0.9, 1.1)),
            waiting_peak=waiting * 1.8 + float(dice.uniform(0, 6)),
            kv_mean=0.62 * float(dice.normal(1, 0.01)),
            kv_peak=float(dice.uniform(0.71, 0.755)),
            preemptions=0,
            tflops_mean=395.0 * float(dice.normal(1, 0.01)),
            hbm_read_gb_per_s_mean=872.0 * float(dice.normal(1, 0.01)),
        )
        for server in range(replicas)
        for rank in range(engines)
    )
    at = np.arange(RUN_SECONDS + 4, dtype=float)
    shape = np.minimum(((at + 2) / 8).clip(0, 1), ((RUN_SECONDS - at) / TAIL_SECONDS).clip(0, 1))
    count = replicas * engines
    kv = 0.63 * shape * dice.normal(1, 0.01, len(at))
    return ServerMetrics(
        servers=replicas,
        engines=ranks,
        timeline=ServerTimeline(
            at=tuple(at.tolist()),
            running=tuple((running * count * shape * dice.normal(1, 0.01, len(at))).tolist()),
            waiting=tuple((waiting * count * shape**3 * dice.uniform(0.5, 1.2, len(at))).tolist()),
            kv_mean=tuple(kv.tolist()),
            kv_max=tuple((kv * 1.13).tolist()),
        ),
        acceptance_rate=0.897,
        mean_acceptance_length=1.897,
        prefix_hit_share=0.0,
        preemptions=0,
        aborted=0,
        generation_tokens=total / 3 * WHOLE_SHARE * RUN_SECONDS,
        failed_scrapes=1,
        scrapes=len(at) * replicas,
        cache_config={"block_size": "528", "num_gpu_blocks": "2211", "cache_dtype": "fp8_e4m3"},
        cache_configs_differ=False,
    )


def gpus(replicas: int, total: float, dice: np.random.Generator) -> Gpus:
    """Power and utilization as in the article's second run."""
    count = replicas * 8
    at = np.arange(0, RUN_SECONDS, 1.0)
    shape = np.minimum(((at + 2) / 10).clip(0, 1), ((RUN_SECONDS - at) / TAIL_SECONDS).clip(0, 1))
    watts = count * (180 + 510 * shape) * dice.normal(1, 0.01, len(at))
    return Gpus(
        readings=(
            GpuReading(name="power_watts", mean=672, peak=977, gpus=count),
            GpuReading(name="gpu_percent", mean=57, peak=100, gpus=count),
            GpuReading(name="temperature_celsius", mean=61, peak=74, gpus=count),
            GpuReading(name="tensor_active_share", mean=0.045, peak=0.092, gpus=count),
            GpuReading(name="dram_active_share", mean=0.074, peak=0.136, gpus=count),
        ),
        timeline=GpuTimeline(at=tuple(at.tolist()), watts=tuple(watts.tolist())),
        watt_hours_per_million_tokens=672 * count / total * 1e6 / 3_600,
    )


def a_run(
    asked: Asked, point: int, repeat: int, *, witnessed: bool = True, collected: bool = True, failed: int = 0
) -> Run:
    """One run at a point: the rate bends as the load passes what the engines take."""
    dice = np.random.default_rng(1_000 * point + repeat)
    wanted = asked.points[point]
    replicas = asked.shape.replicas
    load = wanted.connections / (IN_FLIGHT_PER_NODE * replicas)
    total = TOTAL_PER_NODE * replicas * _bent(load) * float(dice.normal(1, 0.004))
    began = BEGAN + 400 * (point * asked.repeats + repeat)
    clients = tuple(
        a_client(
            number,
            total / wanted.clients,
            wanted.connections // wanted.clients,
            began,
            dice,
            first_seed=FIRST_SEED + (point * asked.repeats + repeat) * max(one.clients for one in asked.points),
            witnessed=witnessed,
        )
        for number in range(wanted.clients)
    )
    steady = rates(total, began + WARM_UP_SECONDS, began + RUN_SECONDS - TAIL_SECONDS)
    completed = 4_000 * wanted.clients - failed
    pods = -(-wanted.clients // 16)
    limits = asked.slo
    return Run(
        name=f"point-{point:02d}-repeat-{repeat}",
        point=point,
        repeat=repeat,
        connections=wanted.connections,
        clients=clients,
        completed=completed,
        failed=failed,
        errors=(
            ()
            if not failed
            else (ErrorKind(kind="connection", count=failed, example="Cannot connect to host 10.8.0.7:8000"),)
        ),
        clock="witness" if witnessed else "end date",
        clock_uncertainty_s=0.0004 if witnessed else 1.0,
        whole=rates(total * WHOLE_SHARE, began, began + RUN_SECONDS),
        common=rates(total * 0.93, began + 0.12, began + RUN_SECONDS - 6),
        steady=steady,
        steady_why="the first 30 s (the longest request of the first wave) and the last 26 s of the common window are cut",
        summed=SummedRates(
            total_tokens_per_s=total * 0.88,
            output_tokens_per_s=total * 0.88 / 3,
            requests_per_s=total * 0.88 / TOKENS_PER_REQUEST,
        ),
        latencies=latencies(round(min(load, 1.6), 3), completed),
        goodput=None
        if limits is None
        else Goodput(
            ttft_ms=limits.ttft_ms,
            tpot_ms=limits.tpot_ms,
            e2e_ms=limits.e2e_ms,
            requests=round(completed * 0.91),
            share=0.91,
            requests_per_s=total / TOKENS_PER_REQUEST * 0.91,
            output_tokens_per_s=total / 3 * 0.91,
        ),
        lengths=Lengths(
            asked_known=witnessed,
            input_mean=768.2,
            input_min=512,
            input_max=1_024,
            output_mean=384.1,
            output_min=256,
            output_max=512,
            output_shorter=0,
            output_longer=0,
        ),
        timeline=a_timeline(total, wanted.connections, dice),
        batches=Batches(
            seconds=steady.seconds / 8,
            total_tokens_per_s=tuple((total * dice.normal(1, 0.006, 8)).tolist()),
            drift_share=0.004,
        ),
        in_flight_mean_steady=wanted.connections * 0.996,
        start_skew_s=0.12 if witnessed else 0.9,
        server=a_server(total, replicas, asked.engines_per_replica, wanted.connections, dice) if collected else None,
        gpus=gpus(replicas, total, dice) if collected else None,
        pod_cores=(14.0,) * pods if witnessed else (),
        pod_cpu_peak=(7.1,) * pods if witnessed else (),
    )


def _bent(load: float) -> float:
    """The rate at that load as a share of the rate at 2,000 in flight: a node is full from there on, and loses 2 % at four times it."""
    return min(load, 1.0) ** 0.72 if load <= 1 else 1 - 0.0067 * (load - 1)


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % interval by Student's t."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean=mean, low=None, high=None, repeats=len(values), variation=None)
    deviation = float(np.std(values, ddof=1))
    half = two_sided(len(values) - 1) * deviation / len(values) ** 0.5
    return Estimate(mean=mean, low=mean - half, high=mean + half, repeats=len(values), variation=deviation / mean)


def a_point(asked: Asked | None, runs: Sequence[Run]) -> Point:
    """The repeats of one load together."""
    total = estimate([run.steady.total_tokens_per_s for run in runs if run.steady is not None])
    output = estimate([run.steady.output_tokens_per_s for run in runs if run.steady is not None])
    requests = estimate([run.steady.requests_per_s for run in runs if run.steady is not None])
    cost = None if asked is None else asked.cost
    return Point(
        point=runs[0].point,
        connections=runs[0].connections,
        runs=tuple(run.name for run in runs),
        total_tokens_per_s=total,
        output_tokens_per_s=output,
        requests_per_s=requests,
        total_tokens_per_s_per_node=None if asked is None else total.mean / asked.shape.replicas,
        latencies=runs[0].latencies,
        usd_per_million_tokens=None if cost is None else cost.usd_per_hour / total.mean / 3_600 * 1e6,
        usd_per_million_output_tokens=None if cost is None else cost.usd_per_hour / output.mean / 3_600 * 1e6,
    )


def a_measurement(asked: Asked | None = None, *, collected: bool = True, **changes: Any) -> Measurement:
    """Every point of `asked` with every repeat; further keywords replace fields."""
    wanted = an_asked() if asked is None else asked
    runs = tuple(
        a_run(wanted, point, repeat, collected=collected)
        for point in range(len(wanted.points))
        for repeat in range(wanted.repeats)
    )
    points = tuple(
        a_point(wanted, [run for run in runs if run.point == number]) for number in range(len(wanted.points))
    )
    fields: dict[str, Any] = {
        "asked": wanted,
        "runs": runs,
        "points": points,
        "prompts": Prompts(known=sum(run.completed for run in runs), repeated=0),
        "excluded": (),
        "remarks": (),
    }
    return Measurement(**{**fields, **changes})


def a_sweep(
    replicas: int = 4, in_flight_per_node: Sequence[int] = (250, 500, 1_000, 2_000), repeats: int = 3
) -> Measurement:
    """Several loads, each with its repeats."""
    return a_measurement(an_asked(replicas=replicas, in_flight_per_node=in_flight_per_node, repeats=repeats))


def a_bare_measurement(clients: int = 4) -> Measurement:
    """Clients' results alone: no run.json, witness, metrics or GPU data."""
    asked = an_asked(replicas=2, repeats=1, in_flight_per_node=(500 * clients,), slo=None)
    run = a_run(asked, 0, 0, witnessed=False, collected=False)
    return Measurement(
        asked=None,
        runs=(run,),
        points=(a_point(None, [run]),),
        prompts=Prompts(known=0, repeated=0),
        excluded=(),
        remarks=(
            "There is no run.json: what was asked, and of which stack, is unknown.",
            "No client has a witness: clocks are laid by the date in each file, to a second.",
        ),
    )


def a_check(id_: str, title: str, found: str, allowed: str, **changes: Any) -> Check:
    """A passed check of the clients."""
    fields: dict[str, Any] = {"verdict": "passed", "why": f"Why `{id_}` matters.", "blames": "client"}
    return Check(id=id_, title=title, found=found, allowed=allowed, **{**fields, **changes})


CHECKS = (
    a_check("client-cpu", "Clients had CPU to spare", "at most 0.48 of a core", "at most 0.8 of a core"),
    a_check("loop-lag", "Event loops kept up", "p99 4.0 ms", "at most a tenth of the median ITL, 7.2 ms"),
    a_check("errors", "No request failed", "0 of 288,000", "at most 0.1 %", blames="server"),
    a_check("skew", "Clients started together", "0.12 s", "at most 1 s", blames="run"),
    a_check("prompts", "Every prompt was sent once", "0 repeated of 288,000", "none", blames="data"),
    a_check("repeats", "Repeats agree", "0.4 % variation", "at most 2 %", blames="run"),
    a_check("engines", "No engine starved", "1.02 times the mean at most", "at most 1.15 times", blames="server"),
)


def a_certificate(*, failed: Sequence[str] = (), unknown: Sequence[str] = ()) -> Certificate:
    """Certified, unless checks of CHECKS are named as failed."""
    checks = tuple(
        one.model_copy(
            update={"verdict": "failed" if one.id in failed else "not measured" if one.id in unknown else "passed"}
        )
        for one in CHECKS
    )
    return Certificate(
        verdict="not certified" if failed else "certified",
        headline=f"Not certified: {len(failed)} of {len(CHECKS)} checks failed."
        if failed
        else "Certified: the servers were the limit, and the clients saw it.",
        checks=checks,
    )


def a_judged(measurement: Measurement | None = None, certificate: Certificate | None = None) -> Judged:
    """A measurement with its certificate."""
    return Judged(
        measurement=a_measurement() if measurement is None else measurement,
        certificate=a_certificate() if certificate is None else certificate,
    )
