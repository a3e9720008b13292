"""/metrics in vLLM 0.18.1's format: every engine's gauges and counters, written by the client library that
vLLM uses.

Source: vLLM 0.18.1, v1/metrics/loggers.py and v1/spec_decode/metrics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tests.support.simulators.model_server.engine import Engine

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REASONS: Final = ("stop", "length", "abort", "error", "repetition")
SOURCES: Final = ("local_compute", "local_cache_hit", "external_kv_transfer")

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
    ("num_preemptions", "Requests put back into the queue.", lambda _: 0),
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


class _Page(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def render(engines: Sequence[Engine], created: float) -> str:
    """The whole page. `created`: when the counters were made, in epoch seconds."""
    return generate_latest(_Page(tuple(_families(engines, created)))).decode()


def _families(engines: Sequence[Engine], created: float) -> Iterator[Metric]:
    node = engines[0].node
    for name, text, value in _GAUGES:
        gauge = GaugeMetricFamily(f"vllm:{name}", text, labels=("engine", "model_name"))
        for engine in engines:
            gauge.add_metric((str(engine.rank), node.model), value(engine))
        yield gauge
    for name, text, value in (*_COUNTERS, *(_DRAFTS if node.speculative_tokens else ())):
        yield _counter(name, text, [(engine, {}, value(engine)) for engine in engines], created)
    if node.speculative_tokens:
        by_position = [
            (engine, {"position": str(position)}, number)
            for engine in engines
            for position, number in enumerate(engine.accepted_by_position)
        ]
        yield _counter(
            "spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", by_position, created
        )
    by_source = [(engine, {"source": source}, _of_source(engine, source)) for engine in engines for source in SOURCES]
    yield _counter("prompt_tokens_by_source", "Number of prompt tokens by source.", by_source, created)
    by_reason = [
        (engine, {"finished_reason": reason}, engine.finished[reason]) for engine in engines for reason in REASONS
    ]
    yield _counter("request_success", "Count of successfully processed requests.", by_reason, created)
    info = GaugeMetricFamily("vllm:cache_config_info", "Information of the LLMEngine CacheConfig")
    for engine in engines:
        info.add_sample(info.name, {**node.cache.info(), "engine": str(engine.rank)}, 1.0)
    yield info


def _of_source(engine: Engine, source: str) -> float:
    if source == "local_compute":
        return engine.prompt_tokens - engine.prompt_tokens_cached
    return engine.prompt_tokens_cached if source == "local_cache_hit" else 0


def _counter(
    name: str, text: str, readings: Iterable[tuple[Engine, Mapping[str, str], float]], created: float
) -> Metric:
    counter = CounterMetricFamily(f"vllm:{name}", text)
    for engine, more, value in readings:
        labels = {"engine": str(engine.rank), "model_name": engine.node.model, **more}
        counter.add_sample(f"{counter.name}_total", labels, value)
        counter.add_sample(f"{counter.name}_created", labels, created)
    return counter
