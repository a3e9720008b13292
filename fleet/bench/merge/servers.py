"""Samples of the servers' /metrics as figures of a run: counters by their increase, gauges by their mean.

Source of the names: vLLM 0.18.1, v1/metrics/loggers.py, v1/spec_decode/metrics.py and v1/metrics/perf.py. A counter that
falls belongs to a restarted server: it counts from zero, as in Prometheus, and a remark names it.
"""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from math import inf
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import ValidationError

from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import MetricsSample
from fleet.bench.measurement import EngineResult, ServerMetrics
from fleet.bench.merge.client_data import Floats

GENERATED: Final = "vllm:generation_tokens_total"
PROMPTED: Final = "vllm:prompt_tokens_total"
RUNNING: Final = "vllm:num_requests_running"
WAITING: Final = "vllm:num_requests_waiting"
KV: Final = "vllm:kv_cache_usage_perc"
PREEMPTED: Final = "vllm:num_preemptions_total"
HIT, LOOKED_UP = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
DRAFTED, ACCEPTED = "vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"
FLOPS: Final = "vllm:estimated_flops_per_gpu_total"
BLOCKS: Final = "num_gpu_blocks"
_UNCOVERED_SECONDS: Final = 3.0
"""Samples come every second; a window that reaches further than this beyond them is not covered. Assumed."""


def read_samples(path: Path) -> list[MetricsSample]:
    """All samples of a run in the order of time. Raises BenchmarkError."""
    try:
        with gzip.open(path) as file:
            samples = [MetricsSample.model_validate_json(line) for line in file]
    except (EOFError, OSError, zlib.error, ValidationError) as error:
        told = " ".join(str(error).split())[:200]
        raise BenchmarkError(f"{path} is not whole: {told}; fetch the measurement again") from None
    return sorted(samples, key=lambda sample: sample.at)


@dataclass
class _Series:
    """One metric of one engine."""

    at: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def increase(self, began: float, ended: float) -> float:
        """Of the counter between two moments, interpolated between samples, without its fresh starts."""
        values = np.array(self.values)
        steps = np.diff(values)
        steps[steps < 0] = values[1:][steps < 0]
        since = np.concatenate([[0.0], np.cumsum(steps)])
        return float(np.interp(ended, self.at, since) - np.interp(began, self.at, since))

    def within(self, began: float, ended: float) -> Floats:
        """Values of the samples in a window; where there is none, those at its ends, interpolated between the samples around it."""
        at, values = np.array(self.at), np.array(self.values)
        inside: Floats = values[(at >= began) & (at <= ended)]
        return inside if len(inside) else np.interp([began, ended], at, values)


_Engine = tuple[str, str]
_All = Mapping[str, Mapping[_Engine, _Series]]


def server_metrics(
    samples: Sequence[MetricsSample], window: tuple[float, float]
) -> tuple[ServerMetrics | None, list[str]]:
    """Figures of one run, None where no server was read, and remarks. `window`: epoch seconds; `samples`: at least one."""
    everything = (samples[0].at, samples[-1].at)
    read = [sample for sample in samples if sample.error is None]
    series: dict[str, dict[_Engine, _Series]] = defaultdict(lambda: defaultdict(_Series))
    for sample in read:
        for metric, engines in sample.values.items():
            for engine, value in engines.items():
                one = series[metric][(sample.server, engine)]
                one.at.append(sample.at)
                one.values.append(value)
    ranks = sorted({key for of in series.values() for key in of}, key=lambda key: (key[0], len(key[1]), key[1]))
    remarks = [*_unread(samples, window), *_restarts(series)]
    if not ranks:
        return None, remarks

    def total(metric: str, span: tuple[float, float] = window) -> float:
        return sum(one.increase(*span) for one in series.get(metric, {}).values())

    drafted, looked_up = total(DRAFTED), total(LOOKED_UP)
    configs = {sample.server: sample.info for sample in read if sample.info is not None}
    return (
        ServerMetrics(
            servers=len({sample.server for sample in read}),
            engines=tuple(_engine(series, key, window) for key in ranks),
            acceptance_rate=total(ACCEPTED) / drafted if drafted > 0 else None,
            prefix_hit_share=total(HIT) / looked_up if looked_up > 0 else None,
            preemptions=total(PREEMPTED),
            generation_tokens=total(GENERATED, everything),
            cache_config=dict(configs[min(configs)]) if configs else {},
            cache_spread=cache_spread(configs.values()),
        ),
        remarks,
    )


def cache_spread(configs: Iterable[Mapping[str, str]]) -> float:
    """How much more blocks the largest cache has than the smallest, as a share; infinite where another label differs."""
    every = list(configs)
    rest = {tuple(sorted((name, value) for name, value in one.items() if name != BLOCKS)) for one in every}
    blocks = [float(one.get(BLOCKS, "nan")) for one in every if one.get(BLOCKS, "0").isdecimal()]
    if len(rest) > 1 or len(blocks) < len(every):
        return inf
    return max(blocks, default=1.0) / max(1.0, min(blocks, default=1.0)) - 1


def _engine(series: _All, key: _Engine, window: tuple[float, float]) -> EngineResult:
    def increase(metric: str) -> float | None:
        one = series.get(metric, {}).get(key)
        return None if one is None else one.increase(*window)

    def gauge(metric: str) -> Floats:
        one = series.get(metric, {}).get(key)
        return np.zeros(1) if one is None else one.within(*window)

    running, waiting = gauge(RUNNING), gauge(WAITING)
    flops = increase(FLOPS)
    seconds = window[1] - window[0]
    return EngineResult(
        server=key[0],
        engine=key[1],
        generation_tokens=increase(GENERATED) or 0.0,
        prompt_tokens=increase(PROMPTED) or 0.0,
        running_mean=float(running.mean()),
        running_peak=float(running.max()),
        waiting_mean=float(waiting.mean()),
        waiting_peak=float(waiting.max()),
        kv_peak=float(gauge(KV).max()),
        tflops_mean=None if flops is None else flops / seconds / 1e12,
    )


def _unread(samples: Iterable[MetricsSample], window: tuple[float, float]) -> Iterable[str]:
    """Servers whose readings do not cover the window: their counts are too low."""
    by_server: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        if _is_address(sample.server):  # a name: its look-up failed
            by_server[sample.server] += [sample.at] if sample.error is None else []
    for server, at in sorted(by_server.items()):
        if not at or at[0] > window[0] + _UNCOVERED_SECONDS or at[-1] < window[1] - _UNCOVERED_SECONDS:
            yield f"the metrics of server {server} do not cover the window"


def _is_address(server: str) -> bool:
    try:
        ip_address(server.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True


def _restarts(series: _All) -> Iterable[str]:
    fell = {key[0] for key, one in series.get(GENERATED, {}).items() if (np.diff(one.values) < 0).any()}
    return [f"server {server} restarted during the run" for server in sorted(fell)]
