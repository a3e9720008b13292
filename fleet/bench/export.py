"""One load of a measurement as a Benchmark Report of llm-d, for tools that compare results of several benchmarks.

Format: version 0.2. Source: llm-d/llm-d-benchmark, llmdbenchmark/analysis/benchmark_report/schema_v0_2.py. Only what was measured is
written; docs/certificate.md lists what is left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import fmean, stdev
from typing import Any, Final

from facts.machines import MACHINES
from facts.workloads import Lengths, named_workload
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import LOOPBACK_MACHINE, Asked
from fleet.bench.measurement import Distribution, Judged, Measurement, Point, Run
from fleet.bench.repeats import WALL_CLOCK

VERSION: Final = "0.2"
_LABEL: Final = "vllm"
_PERCENTILES: Final = {"p10": "p10", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99p9"}
_RATES: Final = {
    "input_token_rate": ("input_tokens_per_s", "tokens/s"),
    "output_token_rate": ("output_tokens_per_s", "tokens/s"),
    "total_token_rate": ("total_tokens_per_s", "tokens/s"),
    "request_rate": ("requests_per_s", "queries/s"),
}


def report(judged: Judged, point: int | None = None) -> dict[str, Any]:
    """The report of one load. Raises BenchmarkError for a self-test, an unknown load, and a sweep without `point`."""
    measurement = judged.measurement
    asked = measurement.asked
    if asked is not None and asked.shape.machine_type == LOOPBACK_MACHINE:
        raise BenchmarkError("a self-test is not exported: its servers run no model")
    load = _load_of(measurement, point)
    runs = [run for run in measurement.runs if run.point == load.point]
    digest = hashlib.sha256(f"{judged.model_dump_json(by_alias=True)}{load.point}".encode()).hexdigest()
    return {
        "version": VERSION,
        "run": {
            "uid": digest[:32],
            **({"eid": asked.name} if asked is not None and asked.name else {}),
            **_time(runs),
            "description": f"{judged.certificate.headline} {judged.certificate.reason}".strip(),
            "keywords": ["vllm-fleet", judged.certificate.verdict],
        },
        **({"scenario": {"stack": [_stack(asked)], "load": _load(asked, load, runs)}} if asked is not None else {}),
        "results": {
            "request_performance": {
                "aggregate": {"requests": _requests(runs), "latency": _latency(asked, load), **_throughput(runs)}
            }
        },
    }


def _load_of(measurement: Measurement, point: int | None) -> Point:
    points = {one.point: one for one in measurement.points}
    if point is None and len(points) == 1:
        return next(iter(points.values()))
    if point not in points:
        loads = ", ".join(f"{number}: {one.connections:,} requests in flight" for number, one in points.items())
        problem = "a report holds one load" if point is None else f"there is no load {point}"
        raise BenchmarkError(f"{problem}; give --point N with N of {loads}")
    return points[point]


def _time(runs: Sequence[Run]) -> dict[str, Any]:
    began, ended = min(run.whole.began for run in runs), max(run.whole.ended for run in runs)
    # Without any wall clock, moments are seconds since the first request.
    if began < WALL_CLOCK:
        return {}
    return {"time": {"start": _iso(began), "end": _iso(ended)}}


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def _stack(asked: Asked) -> dict[str, Any]:
    shape = asked.shape
    arguments = {f"--{name}": value for name, value in shape.flags.items()}
    return {
        "metadata": {
            "label": _LABEL,
            "cfg_id": _digest(arguments, shape.env, asked.image),
            "description": f"{shape.machine_type}, image {asked.image}, model revision {asked.model_revision}, profile {asked.profile}",
        },
        "standardized": {
            "kind": "inference_engine",
            "tool": "vllm",
            "tool_version": shape.engine_version,
            "role": "replica",
            "replicas": shape.replicas,
            "model": {"name": shape.model},
            "accelerator": {
                "model": MACHINES[shape.machine_type].accelerator,
                # Of one replica, as llm-d's own converters count (native_to_br0_2.py).
                "count": shape.gpus_per_replica,
                "parallelism": {
                    "tp": int(shape.flags.get("tensor-parallel-size", 1)),
                    "pp": int(shape.flags.get("pipeline-parallel-size", 1)),
                    "dp": asked.engines_per_replica,
                    "dp_local": asked.engines_per_replica,
                },
            },
        },
        "native": {"args": arguments, "envars": dict(shape.env)},
    }


def _load(asked: Asked, load: Point, runs: Sequence[Run]) -> dict[str, Any]:
    workload = asked.workload
    arguments = {f"--{name}": value for name, value in workload.arguments.items()}
    drawn = None if workload.of_a_file else named_workload(workload.name)
    standard: dict[str, Any] = {
        "tool": "vllm-benchmark",
        "tool_version": asked.shape.engine_version,
        "parallelism": len(runs[0].clients),
        "source": "sampled" if workload.of_a_file else "random",
        "stage": load.point,
        "input_seq_len": _length(drawn.input_tokens if drawn else None, _mean_length(runs, "input")),
        "concurrency": load.connections,
    }
    if workload.ignore_eos:
        standard["output_seq_len"] = _length(drawn.output_tokens if drawn else None, _mean_length(runs, "output"))
    if drawn is not None and drawn.shared_prefix_tokens:
        standard["prefix"] = {
            "prefix_len": {"distribution": "fixed", "value": drawn.shared_prefix_tokens},
            "num_groups": 1,
            "num_users_per_group": 1,
            "num_prefixes": 1,
        }
    return {
        "metadata": {
            "cfg_id": _digest(arguments, workload.dataset, asked.prompts_per_client),
            "description": f"workload {workload.name}, {len(runs)} repeats, {asked.prompts_per_client:,} requests a client",
        },
        "standardized": standard,
        "native": {"args": {**arguments, "--num-prompts": asked.prompts_per_client}},
    }


def _length(drawn: Lengths | None, mean: float) -> dict[str, Any]:
    if drawn is None:
        return {"distribution": "other", "value": mean}
    return {"distribution": "uniform", "value": drawn.mean, "min": drawn.min, "max": drawn.max}


def _mean_length(runs: Sequence[Run], which: str) -> float:
    done = sum(run.completed for run in runs)
    return float(sum(getattr(run.lengths, f"{which}_mean") * run.completed for run in runs) / max(1, done))


def _requests(runs: Sequence[Run]) -> dict[str, Any]:
    failed = sum(run.failed for run in runs)
    return {
        "total": failed + sum(run.completed for run in runs),
        "failures": failed,
        **{
            f"{which}_length": {
                "units": "count",
                "mean": _mean_length(runs, which),
                "min": min(getattr(run.lengths, f"{which}_min") for run in runs),
                "max": max(getattr(run.lengths, f"{which}_max") for run in runs),
            }
            for which in ("input", "output")
        },
    }


def _latency(asked: Asked | None, load: Point) -> dict[str, Any]:
    found = load.latencies
    named = {
        "time_to_first_token": (found.ttft, "ms"),
        "time_per_output_token": (found.tpot, "ms/token"),
        "request_latency": (found.e2e, "ms"),
    }
    # The format's ITL is per token, and a chunk of a server that speculates carries several.
    if asked is not None and not asked.speculative_tokens:
        named["inter_token_latency"] = (found.itl, "ms/token")
    return {name: _statistics(one, units) for name, (one, units) in named.items() if one is not None}


def _statistics(found: Distribution, units: str) -> dict[str, Any]:
    percentiles = {theirs: getattr(found, ours) for ours, theirs in _PERCENTILES.items()}
    return {"units": units, "mean": found.mean, "stddev": found.std, "min": found.min, **percentiles, "max": found.max}


def _throughput(runs: Sequence[Run]) -> dict[str, Any]:
    windows = [run.steady for run in runs if run.steady is not None]
    # Means over different windows mean nothing.
    if len(windows) < len(runs):
        return {}
    rates = {}
    for name, (field, units) in _RATES.items():
        values = [getattr(window, field) for window in windows]
        spread = {"stddev": stdev(values), "min": min(values), "max": max(values)} if len(values) > 1 else {}
        rates[name] = {"units": units, "mean": fmean(values), **spread}
    return {"throughput": rates}


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
