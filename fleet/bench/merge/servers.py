"""Samples of the servers' /metrics as figures of a run: counters by their increase, gauges by their mean.

Source of the names: vLLM 0.18.1, v1/metrics/loggers.py, v1/spec_decode/metrics.py and v1/metrics/perf.py. A counter that
falls belongs to a restarted server: it counts from zero, as in Prometheus, and a remark names it.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import ValidationError

from fleet.bench import cache_configs
from fleet.bench.folder import MetricsSample
from fleet.bench.measurement import EngineResult, ServerMetrics, ServerTimeline
from fleet.bench.merge.client_data import Floats
from fleet.bench.merge.problems import Problem

GENERATED: Final = "vllm:generation_tokens_total"
PROMPTED: Final = "vllm:prompt_tokens_total"
RUNNING: Final = "vllm:num_requests_running"
WAITING: Final = "vllm:num_requests_waiting"
KV: Final = "vllm:kv_cache_usage_perc"
PREEMPTED: Final = "vllm:num_preemptions_total"
FINISHED: Final = "vllm:request_success_total"
HIT, LOOKED_UP = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
DRAFTED, ACCEPTED = "vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"
FLOPS, READ_BYTES = "vllm:estimated_flops_per_gpu_total", "vllm:estimated_read_bytes_per_gpu_total"
_MOST_BYTES: Final = 512 * 2**20
"""Unpacked. Assumed: twice an hour of 128 servers."""
_UNCOVERED_SECONDS: Final = 3.0
"""Samples come every second; a window that reaches further than this beyond them is not covered. Assumed."""


def read_samples(path: Path, shown: str) -> tuple[list[MetricsSample], list[Problem]]:
    """All samples of a run in the order of time."""

    def problem(reason: str, found: str, allowed: str) -> Problem:
        return Problem(file=shown, reason=reason, found=found, allowed=allowed, todo="download the file again")

    try:
        with gzip.open(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        return [], [problem("truncated", f"cannot be unpacked: {error}", "a complete gzip file of one sample a line")]
    if len(data) > _MOST_BYTES:
        found = f"larger than {_MOST_BYTES // 2**20} MiB unpacked"
        return [], [problem("not-a-sample", found, "one sample a second of every server")]
    samples = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            samples.append(MetricsSample.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "line"
            found = f"line {number}: {where}: {first['msg']}"
            return [], [problem("not-a-sample", found, "one MetricsSample a line")]
    if not samples:
        return [], [problem("truncated", "no sample", "one a second of every server")]
    return sorted(samples, key=lambda sample: sample.at), []


@dataclass
class _Series:
    """One metric of one engine."""

    at: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def increasing(self) -> tuple[Floats, Floats, list[float]]:
        """Moments, the counter since its first sample without its fresh starts, and the moments of those."""
        at, values = np.array(self.at), np.array(self.values)
        steps = np.diff(values)
        fell = steps < 0
        steps[fell] = values[1:][fell]
        return at, np.concatenate([[0.0], np.cumsum(steps)]), at[1:][fell].tolist()

    def increase(self, began: float, ended: float) -> float:
        """Between two moments, interpolated between samples."""
        at, values, _ = self.increasing()
        return float(np.interp(ended, at, values) - np.interp(began, at, values))

    def within(self, began: float, ended: float) -> Floats:
        """Values of the samples in a window; where there is none, those at its ends, interpolated between the samples around it."""
        at, values = np.array(self.at), np.array(self.values)
        inside: Floats = values[(at >= began) & (at <= ended)]
        return inside if len(inside) else np.interp([began, ended], at, values)


_Engine = tuple[str, str]


def server_metrics(
    samples: Sequence[MetricsSample], window: tuple[float, float], first_request: float
) -> tuple[ServerMetrics, list[str]]:
    """Figures of one run and remarks on them. `window`: epoch seconds; `samples`: at least one."""
    began, ended = window
    everything = (samples[0].at, samples[-1].at)
    samples, remarks = _without_look_ups(samples)
    series: dict[str, dict[_Engine, _Series]] = defaultdict(lambda: defaultdict(_Series))
    for sample in samples:
        for metric, engines in sample.values.items():
            for engine, value in engines.items():
                one = series[metric][(sample.server, engine)]
                one.at.append(sample.at)
                one.values.append(value)
    ranks = sorted({key for of in series.values() for key in of}, key=_in_order)
    remarks += _restarts(series, first_request) + _coverage(samples, window)

    def total(metric: str, span: tuple[float, float] = window) -> float:
        return sum(one.increase(*span) for one in series.get(metric, {}).values())

    drafts, drafted = total(DRAFTS), total(DRAFTED)
    looked_up = total(LOOKED_UP)
    gone = [key for key in series if key.startswith(FINISHED) and _reason(key) in ("abort", "error")]
    configs = {sample.server: sample.info for sample in samples if sample.info is not None}
    return (
        ServerMetrics(
            servers=len({sample.server for sample in samples}),
            engines=tuple(_engine(series, key, began, ended) for key in ranks),
            timeline=_timeline(samples, first_request),
            acceptance_rate=total(ACCEPTED) / drafted if drafted > 0 else None,
            mean_acceptance_length=1.0 + total(ACCEPTED) / drafts if drafts > 0 else None,
            prefix_hit_share=total(HIT) / looked_up if looked_up > 0 else None,
            preemptions=total(PREEMPTED),
            aborted=sum(total(key, everything) for key in gone),
            generation_tokens=total(GENERATED, everything),
            failed_scrapes=sum(sample.error is not None for sample in samples),
            scrapes=len(samples),
            cache_config=dict(configs[min(configs)]) if configs else {},
            cache_configs_differ=cache_configs.differ(configs.values()),
        ),
        remarks,
    )


def _without_look_ups(samples: Sequence[MetricsSample]) -> tuple[list[MetricsSample], list[str]]:
    """Samples of servers, which have an address. Under a name the collector notes that it was not resolved."""
    readings: list[MetricsSample] = []
    failed: Counter[str] = Counter()
    read = {sample.server for sample in samples if sample.error is None}
    for sample in samples:
        if sample.server not in read and not _is_address(sample.server):
            failed[sample.server] += 1
        else:
            readings.append(sample)
    return readings, [
        f"{count} look-up{'s' if count > 1 else ''} of {name} failed: servers that started meanwhile may be missing"
        for name, count in sorted(failed.items())
    ]


def _is_address(server: str) -> bool:
    try:
        ip_address(server.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True


def _in_order(key: _Engine) -> tuple[str, int, str]:
    server, engine = key
    return server, int(engine) if engine.isdecimal() and len(engine) < 10 else -1, engine


def _reason(key: str) -> str:
    return key.partition("finished_reason=")[2].partition("}")[0].partition(",")[0].strip('"')


def _engine(series: dict[str, dict[_Engine, _Series]], key: _Engine, began: float, ended: float) -> EngineResult:
    def increase(metric: str) -> float | None:
        one = series[metric].get(key) if metric in series else None
        return one.increase(began, ended) if one is not None else None

    def gauge(metric: str) -> Floats:
        one = series[metric].get(key) if metric in series else None
        return one.within(began, ended) if one is not None else np.zeros(1)

    running, waiting, kv = gauge(RUNNING), gauge(WAITING), gauge(KV)
    flops, read = increase(FLOPS), increase(READ_BYTES)
    seconds = ended - began
    return EngineResult(
        server=key[0],
        engine=key[1],
        generation_tokens=increase(GENERATED) or 0.0,
        prompt_tokens=increase(PROMPTED) or 0.0,
        running_mean=float(running.mean()),
        running_peak=float(running.max()),
        waiting_mean=float(waiting.mean()),
        waiting_peak=float(waiting.max()),
        kv_mean=float(kv.mean()),
        kv_peak=float(kv.max()),
        preemptions=increase(PREEMPTED) or 0.0,
        tflops_mean=None if flops is None else flops / seconds / 1e12,
        hbm_read_gb_per_s_mean=None if read is None else read / seconds / 1e9,
    )


def _restarts(series: dict[str, dict[_Engine, _Series]], first_request: float) -> list[str]:
    fell: dict[str, float] = {}
    for metric, engines in series.items():
        if not metric.partition("{")[0].endswith("_total"):
            continue
        for (server, _), engine in engines.items():
            for at in engine.increasing()[2]:
                fell[server] = min(at, fell.get(server, at))
    return [
        f"server {server} restarted during the run, {at - first_request:.0f} s after the first request: up to a second of its counters "
        "is lost"
        for server, at in sorted(fell.items())
    ]


def _coverage(samples: Iterable[MetricsSample], window: tuple[float, float]) -> list[str]:
    by_server: dict[str, list[float]] = defaultdict(list)
    for sample in samples:
        by_server[sample.server]  # a server without a reading is one as well
        if sample.error is None:
            by_server[sample.server].append(sample.at)
    remarks = []
    for server, at in sorted(by_server.items()):
        if not at:
            remarks.append(f"server {server} has no metrics: every scrape failed")
            continue
        late, early = at[0] - window[0], window[1] - at[-1]
        if late > _UNCOVERED_SECONDS or early > _UNCOVERED_SECONDS:
            remarks.append(
                f"server {server}'s metrics cover {max(min(at[-1], window[1]) - max(at[0], window[0]), 0.0):.0f} of the "
                f"{window[1] - window[0]:.0f} s of the window: its counts are too low"
            )
        elif not any(window[0] <= one <= window[1] for one in at):
            remarks.append(f"server {server} was not read in the window: running and waiting requests are interpolated")
    return remarks


def _timeline(samples: Iterable[MetricsSample], first_request: float) -> ServerTimeline:
    """One entry a second; a server that did not answer in it is taken at its last value."""
    by_second: dict[int, list[MetricsSample]] = defaultdict(list)
    for sample in samples:
        if sample.error is None:
            by_second[int(np.floor(sample.at - first_request))].append(sample)
    last: dict[str, tuple[float, float, list[float]]] = {}
    at, running, waiting, mean, highest = [], [], [], [], []
    for second in sorted(by_second):
        for sample in by_second[second]:
            values = sample.values
            last[sample.server] = (
                sum(values.get(RUNNING, {}).values()),
                sum(values.get(WAITING, {}).values()),
                list(values.get(KV, {}).values()),
            )
        kv = [share for _, _, shares in last.values() for share in shares] or [0.0]
        at.append(float(second))
        running.append(sum(one[0] for one in last.values()))
        waiting.append(sum(one[1] for one in last.values()))
        mean.append(sum(kv) / len(kv))
        highest.append(max(kv))
    return ServerTimeline(
        at=tuple(at), running=tuple(running), waiting=tuple(waiting), kv_mean=tuple(mean), kv_max=tuple(highest)
    )
