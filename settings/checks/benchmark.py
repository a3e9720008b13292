"""Checks of the benchmark's settings: what would make it fail or measure something else."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from facts.finding import Finding
from settings.derived.benchmark_load import (
    concurrencies,
    expected_seconds,
    load_of,
    longest_request_tokens,
    most_prompts,
    pod_memory_gib,
)
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.sections.benchmark import Dataset
    from settings.stack import Settings

FILE_WORKLOADS = ("sharegpt", "trace")
"""Workloads that take their requests from a file."""
LONG_HOURS = 4.0
"""Hours of runs above which a benchmark gets a warning. Assumed: the article's tables, eight loads with three repeats, take
less than two."""


def benchmark_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section. A disabled benchmark is checked too, so that enabling it does not fail."""
    yield from _server(settings)
    yield from _dataset(settings)
    yield from _sweep(settings)
    yield from _slo(settings)
    if settings.benchmark.enabled:
        yield from _context(settings)
        yield from _duration(settings)
        yield from _memory(settings)


def _server(settings: Settings) -> Iterator[Finding]:
    benchmark = settings.benchmark
    if benchmark.enabled and benchmark.run_on_update and settings.server.replicas == 0:
        yield Finding(
            id="benchmark-without-server",
            subject=key("benchmark.enabled"),
            found=True,
            allowed="false while server.replicas is 0, or runOnUpdate: false",
            why="the Job would wait for a paused server, on a C4 node that is billed",
            write="benchmark: {enabled: true, runOnUpdate: false}",
        )


def _dataset(settings: Settings) -> Iterator[Finding]:
    workload, dataset = settings.benchmark.workload, settings.benchmark.dataset
    if workload in FILE_WORKLOADS and dataset is None:
        what = "conversations" if workload == "sharegpt" else "requests"
        yield Finding(
            id="workload-without-dataset",
            subject=key("benchmark.dataset"),
            found=None,
            allowed=f"url and sha256 of a file, for workload {workload}",
            why=f"{workload} sends {what} from a file",
            write="dataset: {url: gs://BUCKET/OBJECT, sha256: 64 hexadecimal digits}",
        )
    if dataset is None:
        return
    if workload not in FILE_WORKLOADS:
        yield Finding(
            id="dataset-without-use",
            subject=key("benchmark.dataset"),
            found=dataset.url,
            allowed=f"left out for workload {workload}; {' and '.join(FILE_WORKLOADS)} use a file",
            why=f"{workload} generates its prompts, so every pod would download the file and not use it",
            write="workload: trace, or remove dataset",
        )
    yield from _url(dataset)


def _url(dataset: Dataset) -> Iterator[Finding]:
    if dataset.bucket_and_object is not None or _is_https(dataset.url):
        return
    scheme = dataset.url.partition("://")[0] if "://" in dataset.url else ""
    why = {
        "http": "an unencrypted download can be tampered with",
        "gs": "bucket or object is missing, or has characters that are not valid in such a URL",
    }.get(scheme, "a benchmark pod downloads a file over HTTPS or from Cloud Storage only")
    https = f"https{dataset.url[4:]}" if scheme == "http" else "https://HOST/PATH, or gs://BUCKET/OBJECT"
    yield Finding(
        id="dataset-url",
        subject=key("benchmark.dataset.url"),
        found=dataset.url,
        allowed="https://HOST/PATH without credentials, or gs://BUCKET/OBJECT",
        why=why,
        write=f"url: {https}",
    )


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme == "https"
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and not set(url) & set(" \t\r\n")
        )
    except ValueError:
        return False


def _sweep(settings: Settings) -> Iterator[Finding]:
    asked = settings.benchmark.concurrency
    if asked is not None and len(set(asked)) != len(asked):
        yield Finding(
            id="concurrency-twice",
            subject=key("benchmark.concurrency"),
            found=list(asked),
            allowed="each load once",
            why="a load measured twice is a repeat, not two points of a sweep",
            write=f"concurrency: {list(dict.fromkeys(asked))} with repeats: 2 or more",
        )


def _slo(settings: Settings) -> Iterator[Finding]:
    slo = settings.benchmark.slo
    if slo is not None and slo.ttft_ms is None and slo.tpot_ms is None and slo.e2e_ms is None:
        yield Finding(
            id="slo-without-limits",
            subject=key("benchmark.slo"),
            found="{}",
            allowed="one or more of ttftMs, tpotMs, e2eMs, in milliseconds",
            why="without a limit every request counts as good, and goodput is meaningless",
            write="slo: {ttftMs: 2000, tpotMs: 60}, or remove slo",
        )


def _context(settings: Settings) -> Iterator[Finding]:
    longest, context = longest_request_tokens(settings), settings.serving.engine.context_tokens
    if longest > context:
        yield Finding(
            id="workload-above-context",
            subject=key("benchmark.workload"),
            found=settings.benchmark.workload,
            allowed=f"a workload with requests of up to {context:,} tokens (maxModelLen); this one has up to {longest:,}",
            why="the server rejects longer requests, and the benchmark would count errors",
            write=f"server: {{engine: {{maxModelLen: {longest}}}}}, or workload: article",
        )


def _duration(settings: Settings) -> Iterator[Finding]:
    benchmark = settings.benchmark
    hours = expected_seconds(settings) / 3600
    if hours <= LONG_HOURS:
        return
    loads, fewest = concurrencies(settings), min(concurrencies(settings)) * max(1, settings.replicas)
    # Rounds, not prompts, take time: a few tens are enough for a steady state.
    prompts = max(100, min(benchmark.prompts_per_client, 20 * fewest))
    yield Finding(
        id="benchmark-takes-long",
        subject=key("benchmark.promptsPerClient"),
        found=benchmark.prompts_per_client,
        allowed=f"up to {LONG_HOURS:g} hours in total; this benchmark takes about {hours:.0f}",
        why=f"{len(loads)} load{'s' * (len(loads) > 1)} x {benchmark.repeats} repeats: a client with few connections needs hours for "
        f"{benchmark.prompts_per_client:,} prompts, while the whole fleet is billed",
        write=f"promptsPerClient: {prompts}, fewer repeats, or a sweep without its lowest loads"
        if prompts < benchmark.prompts_per_client
        else f"repeats: {max(1, ceil(benchmark.repeats / 2))}, or fewer loads",
        severity="warning",
    )


def _memory(settings: Settings) -> Iterator[Finding]:
    benchmark, most = settings.benchmark, most_prompts(settings)
    if benchmark.prompts_per_client <= most:
        return
    load, memory_gib = load_of(settings), pod_memory_gib(benchmark.machine_type)
    # Two significant digits, because it is an estimate.
    write = int(float(f"{most:.1e}"))
    yield Finding(
        id="benchmark-memory",
        subject=key("benchmark.promptsPerClient"),
        found=benchmark.prompts_per_client,
        allowed=f"about {write:,} prompts for each of {ceil(load.clients / load.pods)} clients in a pod of {memory_gib} GiB",
        why="a client keeps every prompt and the time of every chunk until the run ends; a pod that runs out of memory loses the run",
        write=f"promptsPerClient: {write}, and more repeats",
        severity="warning",
    )
