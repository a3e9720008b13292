"""Checks of the benchmark's settings: what would make it fail or measure something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.sizing import BENCHMARK_CONNECTIONS, BENCHMARK_MACHINES
from facts.texts import plural
from settings.checks.unused import FILE_WORKLOADS
from settings.derived.benchmark_load import (
    concurrencies,
    expected_seconds,
    load_of,
    longest_request_tokens,
    most_prompts,
    pod_memory_gib,
)
from settings.row import Row

if TYPE_CHECKING:
    from settings.stack import Settings

LONG_HOURS = 4.0
"""Hours of runs above which a benchmark gets a warning. Assumed: the article's tables, eight loads with three repeats, take
less than two."""
_NO_SERVER = Row(
    "benchmark-without-server",
    "the Job would wait for a paused server, on a C4 node that is billed",
    "benchmark: {enabled: true, runOnUpdate: false}",
)
_NO_DATASET = Row(
    "workload-without-dataset",
    "the workload sends requests from a file",
    "dataset: {url: gs://BUCKET/OBJECT, sha256: 64 hexadecimal digits}",
)
_CONTEXT = Row(
    "workload-above-context",
    "the server rejects longer requests, and the benchmark would count errors",
    "a larger maxModelLen, or workload: article",
)
_PORTS = Row(
    "benchmark-connections",
    "one pod makes all connections, and has 28,232 ports for those to one address",
    "a lower concurrency, or fewer replicas: servers are independent, and a load per replica is measured on fewer of them as well",
)
_CLIENTS = Row(
    "benchmark-clients",
    "each client process needs a vCPU of the one machine that they share",
    "a higher connectionsPerClient",
)
_LONG = Row(
    "benchmark-takes-long",
    "a client with few connections needs hours for its prompts, while the whole fleet is billed",
    "fewer promptsPerClient, fewer repeats, or a sweep without its lowest loads",
    "warning",
)
_MEMORY = Row(
    "benchmark-memory",
    "a client keeps every prompt and the time of every chunk until the run ends; a pod that runs out of memory loses the run",
    "fewer promptsPerClient, and more repeats",
    "warning",
)


def benchmark_problems(settings: Settings) -> Iterator[Finding]:
    """Every problem of the section. A disabled benchmark is checked too, so that enabling it does not fail."""
    benchmark = settings.benchmark
    if benchmark.enabled and benchmark.run_on_update and settings.server.replicas == 0:
        yield _NO_SERVER("benchmark.enabled", True, "false while server.replicas is 0, or runOnUpdate: false")
    if benchmark.workload in FILE_WORKLOADS and benchmark.dataset is None:
        yield _NO_DATASET("benchmark.dataset", None, f"url and sha256 of a file, for workload {benchmark.workload}")
    if not benchmark.enabled:
        return
    longest, context = longest_request_tokens(settings), settings.serving.engine.context_tokens
    if longest > context:
        allowed = f"requests of up to {context:,} tokens (maxModelLen); these have up to {longest:,}"
        yield _CONTEXT("benchmark.workload", benchmark.workload, allowed)
    load = load_of(settings)
    if load.connections > BENCHMARK_CONNECTIONS:
        per_replica = max(concurrencies(settings))
        replicas, fewer = load.connections // per_replica, BENCHMARK_CONNECTIONS // per_replica
        allowed = (
            f"at most {BENCHMARK_CONNECTIONS:,} requests in flight, and {plural(replicas, 'replica')} with {per_replica:,} each make "
            f"{load.connections:,}: up to {BENCHMARK_CONNECTIONS // replicas:,} each"
            + (f", or up to {plural(fewer, 'replica')}" if fewer else "")
        )
        yield _PORTS("benchmark.concurrency", list(concurrencies(settings)), allowed)
    if load.clients > (most_clients := max(vcpus for vcpus, _ in BENCHMARK_MACHINES.values())):
        allowed = f"at most {most_clients} clients; this makes {load.clients}"
        yield _CLIENTS("benchmark.connectionsPerClient", benchmark.connections_per_client, allowed)
    prompts, hours = benchmark.prompts_per_client, expected_seconds(settings) / 3600
    if hours > LONG_HOURS:
        allowed = f"up to {LONG_HOURS:g} hours in total; this benchmark takes about {hours:.0f}"
        yield _LONG("benchmark.promptsPerClient", prompts, allowed)
    if prompts > (most := most_prompts(settings)):
        # Two significant digits, because it is an estimate.
        about, memory_gib = int(float(f"{most:.1e}")), pod_memory_gib(load.machine_type)
        allowed = f"about {about:,} prompts for each of {load.clients} clients in a pod of {memory_gib} GiB"
        yield _MEMORY("benchmark.promptsPerClient", prompts, allowed)
