"""How a question differs from the article's measured runs. Each difference lowers confidence in the answer."""

from __future__ import annotations

from collections.abc import Iterator

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
    found = _departures(deployment, workload, in_flight_per_node)
    return tuple(f"{what}: {here}; measured: {measured}" for what, here, measured in found)


def _departures(
    deployment: Deployment, workload: Workload, in_flight_per_node: float
) -> Iterator[tuple[str, str, str]]:
    """What differs, its value here, and what was measured."""
    record = record_fleet(deployment.nodes, routing=deployment.routing)
    if deployment.model != record.model:
        yield "model", deployment.model.name, record.model.name
    if (deployment.gpu, deployment.gpus_per_node) != (record.gpu, record.gpus_per_node):
        yield "GPU", f"{deployment.gpus_per_node} {deployment.gpu.name} per node", f"8 {record.gpu.name}"
    engines = MEASURED_ENGINES if deployment.routing == "cluster-ip" else [record.engine]
    nearest = min(engines, key=lambda engine: len(_changed(engine, deployment.engine)))
    for name in _changed(nearest, deployment.engine):
        yield _OPTIONS[name], _format(getattr(deployment.engine, name)), _format(getattr(nearest, name))
    fewest, most = MEASURED_NODES[deployment.routing] if nearest == record.engine else (1, 1)
    if not fewest <= deployment.nodes <= most:
        counts = f"{fewest} to {most}" if fewest < most else f"{fewest}"
        yield "nodes", f"{deployment.nodes} with {deployment.routing} routing", counts
    article = named_workload("article")
    if workload.input_tokens != article.input_tokens:
        yield "prompts", f"{_range(workload.input_tokens)} tokens", _range(article.input_tokens)
    if workload.output_tokens != article.output_tokens:
        yield "answers", f"{_range(workload.output_tokens)} tokens", _range(article.output_tokens)
    if workload.shared_prefix_tokens:
        yield "prompts", "shared prefix and cache hits", "neither"
    if abs(in_flight_per_node / MEASURED_ENGINES[nearest] - 1) > _SAME_LOAD:
        yield "load", f"{in_flight_per_node:,.0f} requests in flight per node", f"{MEASURED_ENGINES[nearest]:,.0f}"


def _changed(measured: EngineShape, ours: EngineShape) -> list[str]:
    return [name for name in _OPTIONS if getattr(measured, name) != getattr(ours, name)]


def _range(lengths: Lengths) -> str:
    if lengths.min == lengths.max:
        return f"{lengths.mean:,g}"
    return f"{lengths.min:,} to {lengths.max:,} (mean {lengths.mean:,g})"


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
