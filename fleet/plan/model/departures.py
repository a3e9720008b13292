"""In what a question leaves the runs that the article measured. Each way is one reason to trust the answer less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from facts.workloads import Workload, named_workload
from fleet.plan.model.deployment import MEASURED_IN_FLIGHT_PER_NODE, Deployment, EngineShape, record_fleet

# Source: the article's tables: node counts of each routing.
MEASURED_NODES = {"cluster-ip": (1, 12), "inference-gateway": (2, 8)}
# Loads this near to the measured one count as it.
_SAME_LOAD = 0.02

_OPTIONS = {
    "data_parallel": "--data-parallel-size",
    "tensor_parallel": "--tensor-parallel-size",
    "max_model_len_tokens": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "kv_cache_dtype": "--kv-cache-dtype",
    "ssm_cache_dtype": "--mamba-ssm-cache-dtype",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "prefix_caching": "--enable-prefix-caching",
    "speculative_tokens": "draft tokens",
    "captured_tokens": "--max-cudagraph-capture-size",
    "estimate_cudagraphs": "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    "language_model_only": "--language-model-only",
    "running_limit": "sequences running at most",
}


def departures(deployment: Deployment, workload: Workload, in_flight_per_node: float) -> tuple[str, ...]:
    """The ways, in words; empty for the article's final configuration at its load."""
    return tuple(_departures(deployment, workload, in_flight_per_node))


def _departures(deployment: Deployment, workload: Workload, in_flight_per_node: float) -> Iterator[str]:
    measured = record_fleet(deployment.nodes, routing=deployment.routing)
    if deployment.model != measured.model:
        yield f"model: {measured.model.name} was measured, not {deployment.model.name}"
    if (deployment.gpu, deployment.gpus_per_node) != (measured.gpu, measured.gpus_per_node):
        yield f"GPU: eight {measured.gpu.name} a node were measured, not {deployment.gpus_per_node} {deployment.gpu.name}"
    yield from _engine(measured.engine, deployment.engine)
    fewest, most = MEASURED_NODES[deployment.routing]
    if not fewest <= deployment.nodes <= most:
        yield f"nodes: {fewest} to {most} were measured with {deployment.routing} routing, not {deployment.nodes}"
    yield from _requests(workload)
    if abs(in_flight_per_node / MEASURED_IN_FLIGHT_PER_NODE - 1) > _SAME_LOAD:
        yield (
            f"load: {MEASURED_IN_FLIGHT_PER_NODE:,} requests in flight a node were measured, not {in_flight_per_node:,.0f}"
        )


def _engine(measured: EngineShape, ours: EngineShape) -> Iterator[str]:
    for field in fields(EngineShape):
        published, here = getattr(measured, field.name), getattr(ours, field.name)
        if published != here:
            yield f"{_OPTIONS[field.name]}: {_format(published)} was measured, not {_format(here)}"


def _requests(workload: Workload) -> Iterator[str]:
    measured = named_workload("article")
    for name, published, here in (
        ("prompts", measured.input_tokens, workload.input_tokens),
        ("answers", measured.output_tokens, workload.output_tokens),
    ):
        if published != here:
            yield (
                f"{name}: {published.min} to {published.max} tokens were measured, mean {published.mean:g}, "
                f"not {here.min:,} to {here.max:,}, mean {here.mean:,g}"
            )
    if workload.shared_prefix_tokens:
        yield "prompts: nothing shared was measured, and no cache hit"


def _format(value: object) -> str:
    if value is None:
        return "no limit seen"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
