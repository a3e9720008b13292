"""Hold the names of the catalogue's series (facts/signals/series.py) against what a release of vLLM exports.

Run where `tests.vllm.check_parser` runs (`make vllm-check` does both, for both releases):
`.venv-vllm/bin/python -m tests.vllm.check_metrics`. The logger of vLLM registers its metrics for two engines; names, labels and
buckets are read from its registry.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from facts.releases import at, find
from facts.signals.catalogue import catalogue
from facts.signals.series import NIXL, SERVER, SLEEP, STEPS, TPOT, TPOT_BOUNDS, TTFT, TTFT_BOUNDS, VLLM, has
from fleet.clients.metrics_text import parse
from tests.facts.signals.fleets import EVERYTHING
from tests.facts.signals.names import matchers, metrics
from tests.vllm.check_parser import Check, _equal, run

COUNTED = ("stop", "length", "abort", "error", "repetition")


def exported() -> dict[str, Any]:
    """Samples of vLLM's registry as /metrics would show them: the names of labels by sample, and the bounds of histograms."""
    import prometheus_client
    from vllm.v1.metrics.loggers import PrometheusStatLogger

    logger = PrometheusStatLogger(_config(), [0, 1])
    labels: dict[str, set[str]] = {}
    values: dict[tuple[str, str], set[str]] = {}
    for family in prometheus_client.REGISTRY.collect():
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
            for label, value in sample.labels.items():
                values.setdefault((sample.name, label), set()).add(value)
    return {"labels": labels, "values": values, "logger": logger}


def _config() -> Any:
    """As much of vLLM's configuration as its logger reads."""

    class Anything(SimpleNamespace):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return None

    return Anything(
        observability_config=Anything(show_hidden_metrics=False, kv_cache_metrics=False, enable_mfu_metrics=False),
        model_config=Anything(served_model_name="model", max_model_len=8192),
        cache_config=Anything(metrics_info=lambda: {"block_size": "16"}),
        parallel_config=Anything(data_parallel_size=2),
        speculative_config=Anything(num_speculative_tokens=1),
    )


def checks() -> Iterator[Check]:
    """Every check, by name."""
    release = find(importlib.metadata.version("vllm")).number
    found = exported()
    labels, values = found["labels"], found["values"]

    def same_names() -> None:
        _equal({name for name in VLLM if has(release, name)}, {name for name in VLLM if name in labels}, "series")
        own = {name for name in labels if name.startswith("vllm:") and not name.endswith("_created")}
        _equal(own - at(release).series, set(), "series that facts/data/vllm-series.txt has not")

    def same_labels() -> None:
        every = catalogue(replace(EVERYTHING, release=release))
        queries = [one.expr for one in (*every.recordings, *every.alerts)]
        queries += [query.expr for panel in every.panels for query in panel.queries]
        for query in queries:
            for name, wanted in matchers(query):
                if name in labels:
                    _equal(wanted - labels[name] - {"app", "namespace"}, set(), f"labels of {name} that vLLM has not")
        if not any(metrics(query) & labels.keys() for query in queries):
            raise AssertionError("no query names a series of vLLM")

    def same_transfers() -> None:
        import prometheus_client
        from vllm.distributed.kv_transfer.kv_connector.v1.nixl.stats import NixlPromMetrics

        kinds: Any = {
            kind: kind for kind in (prometheus_client.Gauge, prometheus_client.Counter, prometheus_client.Histogram)
        }
        NixlPromMetrics(_config(), kinds, ["model_name", "engine"], {0: ["model", "0"]})
        seen = {sample.name for family in prometheus_client.REGISTRY.collect() for sample in family.samples}
        _equal(set(NIXL) - seen, set(), "series of the connector that vLLM has not")

    def same_bounds() -> None:
        for name, bounds in ((TTFT, TTFT_BOUNDS), (TPOT, TPOT_BOUNDS)):
            seen = values[f"{name}_bucket", "le"] - {"+Inf"}
            _equal(tuple(sorted(map(float, seen))), bounds, f"bounds of {name}")
            _equal({str(one) for one in bounds}, seen, f"bounds of {name} as text")

    def same_reasons() -> None:
        _equal(values["vllm:request_success_total", "finished_reason"], set(COUNTED), "reasons")

    def web_server() -> None:
        import prometheus_fastapi_instrumentator as package

        source = (Path(package.__file__).parent / "metrics.py").read_text(encoding="utf-8")
        for name in SERVER:
            _equal(f'name="{name}"' in source, True, name)
        middle = (Path(package.__file__).parent / "middleware.py").read_text(encoding="utf-8")
        _equal('status[0] + "xx"' in middle, True, "status in groups")

    def steps() -> None:
        from prometheus_client import generate_latest
        from vllm.v1.metrics.loggers import PrometheusStatLogger
        from vllm.v1.metrics.stats import IterationStats, SchedulerStats

        logger = found["logger"]
        assert isinstance(logger, PrometheusStatLogger)

        def said(engine: str) -> list[float | None]:
            page = parse(generate_latest().decode())
            return [page.total(name, engine=engine) for name in STEPS]

        def stepped(engine: int, **recorded: Any) -> set[str]:
            before = {label: said(label) for label in ("0", "1")}
            logger.record(engine_idx=engine, **recorded)
            return {label for label, values in before.items() if said(label) != values}

        _equal(
            [name for name, value in zip(STEPS, said("1"), strict=True) if value is None], [], "series without a value"
        )
        first = SchedulerStats(num_running_reqs=1, kv_cache_usage=0.1)
        _equal(stepped(1, scheduler_stats=first, iteration_stats=None), {"1"}, "engines after a first step")
        # A chunk of a prompt: no output.
        chunk = SchedulerStats(num_running_reqs=1, kv_cache_usage=0.2)
        _equal(stepped(1, scheduler_stats=chunk, iteration_stats=None), {"1"}, "engines after a chunk")
        token = stepped(1, scheduler_stats=chunk, iteration_stats=IterationStats())
        _equal(token, {"1"}, "engines after a token")
        _equal(stepped(1, scheduler_stats=None, iteration_stats=None), set(), "engines without a step")
        logger.record_sleep_state(1, 1)
        awake = parse(generate_latest().decode()).total(SLEEP, engine="1", sleep_state="awake")
        _equal(awake, 0.0, "awake while asleep")

    yield "series of vLLM are those that the catalogue says", same_names
    yield "labels in expressions are vLLM's", same_labels
    # Of the release that hands caches on here; earlier ones are refused (docs/prefill-apart.md).
    if release >= (0, 33, 0):
        yield "series of transfers are vLLM's", same_transfers
    yield "buckets are vLLM's", same_bounds
    yield "reasons of finished requests are vLLM's", same_reasons
    yield "each engine's steps show in its series, and only they do", steps
    yield "the web server counts requests by groups of status", web_server


if __name__ == "__main__":
    sys.exit(run(checks))
