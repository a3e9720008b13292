"""How a question differs from the article's measured runs. Each difference lowers confidence in the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model.deployment import Deployment, EngineShape, record_fleet
from fleet.plan.model.measured import MEASURED_ENGINES

# Source: the article's tables: node counts of each routing.
MEASURED_NODES = {"cluster-ip": (1, 12), "inference-gateway": (2, 8)}
# A load within this share of the measured one counts as measured.
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
    "max_loras": "--max-loras",
    "max_lora_rank": "--max-lora-rank",
    "stream_interval": "--stream-interval",
    "api_servers": "--api-server-count",
}


def departures(deployment: Deployment, workload: Workload, in_flight_per_node: float) -> tuple[str, ...]:
    """Differences from the nearest measured configuration, one phrase each; empty for that configuration at its load."""
    return tuple(_departures(deployment, workload, in_flight_per_node))


def _departures(deployment: Deployment, workload: Workload, in_flight_per_node: float) -> Iterator[str]:
    record = record_fleet(deployment.nodes, routing=deployment.routing)
    if deployment.model != record.model:
        yield f"model: {deployment.model.name}; measured: {record.model.name}"
    if (deployment.gpu, deployment.gpus_per_node) != (record.gpu, record.gpus_per_node):
        yield f"GPU: {deployment.gpus_per_node} {deployment.gpu.name} per node; measured: 8 {record.gpu.name}"
    engines = MEASURED_ENGINES if deployment.routing == "cluster-ip" else [record.engine]
    nearest = min(engines, key=lambda engine: len(_changed(engine, deployment.engine)))
    yield from _engine(nearest, deployment.engine)
    fewest, most = MEASURED_NODES[deployment.routing] if nearest == record.engine else (1, 1)
    if not fewest <= deployment.nodes <= most:
        counts = f"{fewest} to {most}" if fewest < most else f"{fewest}"
        yield f"nodes: {deployment.nodes} with {deployment.routing} routing; measured: {counts}"
    yield from _requests(workload)
    if abs(in_flight_per_node / MEASURED_ENGINES[nearest] - 1) > _SAME_LOAD:
        yield (
            f"load: {in_flight_per_node:,.0f} requests in flight per node; measured: {MEASURED_ENGINES[nearest]:,.0f}"
        )


def _engine(measured: EngineShape, ours: EngineShape) -> Iterator[str]:
    for name in _changed(measured, ours):
        published, here = getattr(measured, name), getattr(ours, name)
        if any(getattr(engine, name) == here for engine in MEASURED_ENGINES):
            yield f"{_OPTIONS[name]}: {_format(here)}, measured only with other options; measured with these: {_format(published)}"
        else:
            yield f"{_OPTIONS[name]}: {_format(here)}; measured: {_format(published)}"


def _changed(measured: EngineShape, ours: EngineShape) -> list[str]:
    return [field.name for field in fields(EngineShape) if getattr(measured, field.name) != getattr(ours, field.name)]


def _requests(workload: Workload) -> Iterator[str]:
    measured = named_workload("article")
    for name, published, here in (
        ("prompts", measured.input_tokens, workload.input_tokens),
        ("answers", measured.output_tokens, workload.output_tokens),
    ):
        if published != here:
            yield f"{name}: {_range(here)} tokens; measured: {_range(published)}"
    if workload.shared_prefix_tokens:
        yield "prompts: shared prefix and cache hits; measured: neither"


def _range(lengths: Lengths) -> str:
    if lengths.min == lengths.max:
        return f"{lengths.mean:,g}"
    return f"{lengths.min:,} to {lengths.max:,} (mean {lengths.mean:,g})"


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
