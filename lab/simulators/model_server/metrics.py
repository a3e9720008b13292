"""/metrics in vLLM 0.18.1's format: every engine's gauges and counters, with its client library's labels and order, and the
observed histograms.

Source: vLLM 0.18.1, v1/metrics/loggers.py, v1/spec_decode/metrics.py, v1/metrics/perf.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from lab.simulators.model_server.engine import Engine

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REASONS: Final = ("stop", "length", "abort", "error", "repetition")
SOURCES: Final = ("local_compute", "local_cache_hit", "external_kv_transfer")
FLOPS_PER_TOKEN: Final = 2 * 27e9
"""Two for every parameter that a token passes. Assumed: 27 B parameters; vLLM's own figure is rough for this model too."""
BYTES_PER_STEP: Final = 28 * 2**30
"""Weights and draft, read once in every step. Source: facts/memory.py, WEIGHTS_AND_DRAFT_GIB."""

Value = Callable[[Engine], float]
_GAUGES: Final[tuple[tuple[str, str, Value], ...]] = (
    ("num_requests_running", "Number of requests in model execution batches.", lambda one: len(one.running)),
    ("num_requests_waiting", "Number of requests waiting to be processed.", lambda one: len(one.waiting)),
    ("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", lambda one: one.kv_usage),
)
_COUNTERS: Final[tuple[tuple[str, str, Value], ...]] = (
    ("prefix_cache_queries", "Prefix cache queries, in tokens.", lambda one: one.prefix_queries),
    ("prefix_cache_hits", "Prefix cache hits, in tokens.", lambda one: one.prefix_hits),
    ("external_prefix_cache_queries", "Prefix cache queries to a KV connector, in tokens.", lambda _: 0),
    ("external_prefix_cache_hits", "Prefix cache hits of a KV connector, in tokens.", lambda _: 0),
    ("num_preemptions", "Requests put back into the queue.", lambda one: one.preemptions),
    ("prompt_tokens", "Number of prefill tokens processed.", lambda one: one.prompt_tokens),
    ("prompt_tokens_cached", "Number of cached prompt tokens.", lambda one: one.prompt_tokens_cached),
    ("generation_tokens", "Number of generation tokens processed.", lambda one: one.generation_tokens),
)
_DRAFTS: Final[tuple[tuple[str, str, Value], ...]] = (
    ("spec_decode_num_drafts", "Number of spec decoding drafts.", lambda one: one.drafts),
    (
        "spec_decode_num_draft_tokens",
        "Number of draft tokens.",
        lambda one: one.drafts * one.node.speculative_tokens,
    ),
    (
        "spec_decode_num_accepted_tokens",
        "Number of accepted tokens.",
        lambda one: sum(one.accepted_by_position),
    ),
)
_MFU: Final[tuple[tuple[str, str, Value], ...]] = (
    (
        "estimated_flops_per_gpu",
        "Estimated floating point operations.",
        lambda one: FLOPS_PER_TOKEN * (one.prompt_tokens + one.generation_tokens),
    ),
    ("estimated_read_bytes_per_gpu", "Estimated bytes read.", lambda one: BYTES_PER_STEP * one.steps),
    ("estimated_write_bytes_per_gpu", "Estimated bytes written.", lambda _: 0),
)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observed seconds of every engine, in vLLM's buckets."""

    name: str
    text: str
    bounds: Sequence[float]
    counts: dict[Engine, list[int]] = field(default_factory=dict)
    sums: dict[Engine, float] = field(default_factory=dict)

    def observe(self, engine: Engine, seconds: float) -> None:
        """One request."""
        self.counts.setdefault(engine, [0] * (len(self.bounds) + 1))[bisect_left(self.bounds, seconds)] += 1
        self.sums[engine] = self.sums.get(engine, 0.0) + seconds

    def lines(self, engines: Sequence[Engine]) -> Iterator[str]:
        """Its part of the page: each bucket holds those below it too."""
        yield f"# HELP vllm:{self.name} {self.text}"
        yield f"# TYPE vllm:{self.name} histogram"
        for engine in engines:
            counts = list(accumulate(self.counts.get(engine, [0] * (len(self.bounds) + 1))))
            for bound, count in zip((*map(float, self.bounds), "+Inf"), counts, strict=True):
                labels = _labels(engine, f'le="{bound}"')
                yield f"vllm:{self.name}_bucket{{{labels}}} {float(count)}"
            for end, value in (("count", counts[-1]), ("sum", self.sums.get(engine, 0.0))):
                yield f"vllm:{self.name}_{end}{{{_labels(engine, '')}}} {float(value)}"


def render(engines: Sequence[Engine], created: float, histograms: Sequence[Histogram] = ()) -> str:
    """The whole page. `created`: when the counters were made, in epoch seconds."""
    observed = (line for one in histograms for line in one.lines(engines))
    return "\n".join((*_lines(engines, created), *observed)) + "\n"


def _lines(engines: Sequence[Engine], created: float) -> Iterator[str]:
    node = engines[0].node
    for name, text, value in _GAUGES:
        yield from _family(name, "gauge", text, ((engine, "", value(engine)) for engine in engines))
    counters = [*_COUNTERS, *(_DRAFTS if node.speculative_tokens else ()), *(_MFU if node.mfu_metrics else ())]
    for name, text, value in counters:
        yield from _counter(name, text, [(engine, "", value(engine)) for engine in engines], created)
    if node.speculative_tokens:
        by_position = [
            (engine, f',position="{position}"', float(number))
            for engine in engines
            for position, number in enumerate(engine.accepted_by_position)
        ]
        yield from _counter(
            "spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", by_position, created
        )
    by_source = [
        (engine, f',source="{source}"', _of_source(engine, source)) for engine in engines for source in SOURCES
    ]
    yield from _counter("prompt_tokens_by_source", "Number of prompt tokens by source.", by_source, created)
    by_reason = [(engine, f',finished_reason="{one}"', engine.finished[one]) for engine in engines for one in REASONS]
    yield from _counter("request_success", "Count of successfully processed requests.", by_reason, created)
    yield "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig"
    yield "# TYPE vllm:cache_config_info gauge"
    for engine in engines:
        labels = {**node.cache.info(), "engine": str(engine.rank)}
        written = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels))
        yield f"vllm:cache_config_info{{{written}}} 1.0"


def _of_source(engine: Engine, source: str) -> float:
    if source == "local_compute":
        return engine.prompt_tokens - engine.prompt_tokens_cached
    return engine.prompt_tokens_cached if source == "local_cache_hit" else 0


def _family(name: str, kind: str, text: str, readings: Iterable[tuple[Engine, str, float]]) -> Iterator[str]:
    yield f"# HELP vllm:{name} {text}"
    yield f"# TYPE vllm:{name} {kind}"
    for engine, more, value in readings:
        yield f"vllm:{name}{{{_labels(engine, more)}}} {float(value)}"


def _counter(name: str, text: str, readings: Sequence[tuple[Engine, str, float]], created: float) -> Iterator[str]:
    yield from _family(f"{name}_total", "counter", text, readings)
    yield from _family(f"{name}_created", "gauge", text, [(engine, more, created) for engine, more, _ in readings])


def _labels(engine: Engine, more: str) -> str:
    # The client library sorts labels by name.
    labels = [f'engine="{engine.rank}"', *(one for one in more.split(",") if one), f'model_name="{engine.node.model}"']
    return ",".join(sorted(labels))
