"""Inputs of the model: a fleet and its load."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from facts.engines import DEFAULT, find
from facts.machines import DEFAULT_MACHINE, Gpu
from facts.memory import DEFAULT_LORA_RANK, CacheLayout
from facts.models import ModelShape, of_the_article
from facts.releases import Defect

Routing = Literal["cluster-ip", "inference-gateway"]

# Source: the article: requests in flight on one node, in every table.
MEASURED_IN_FLIGHT_PER_NODE = 2_000
MEASURED_IN_FLIGHT_PER_GPU = MEASURED_IN_FLIGHT_PER_NODE // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineShape:
    """The vLLM options that decide memory and speed, all explicit. Raises ValueError."""

    data_parallel: int = 8
    tensor_parallel: int = 1
    max_model_len_tokens: int = 2_560
    max_num_seqs: int = find(DEFAULT).sequences(DEFAULT_MACHINE.gpu)
    max_num_batched_tokens: int = find(DEFAULT).batched_tokens(DEFAULT_MACHINE.gpu)
    kv_cache_dtype: str = "fp8_e4m3"
    ssm_cache_dtype: str = "auto"
    gpu_memory_utilization: float = 0.92
    prefix_caching: bool = True
    speculative_tokens: int = 1
    captured_tokens: int = find(DEFAULT).captured_tokens(DEFAULT_MACHINE.gpu)
    """Largest step in tokens with a captured CUDA graph."""
    estimate_cudagraphs: bool = True
    """`VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`: graphs count within the memory budget, not on top of it."""
    language_model_only: bool = False
    max_loras: int = 0
    """Slots for LoRA adapters; 0 without `--enable-lora`."""
    max_lora_rank: int = DEFAULT_LORA_RANK
    stream_interval: int = 1
    """Tokens that a streamed chunk gathers after the first."""
    api_servers: int | None = None
    """HTTP processes per pod. None: one per data-parallel rank, the default of `vllm serve`."""

    @property
    def http_processes(self) -> int:
        """HTTP processes per pod."""
        return self.api_servers or self.data_parallel

    def __post_init__(self) -> None:
        for name in (
            "data_parallel",
            "tensor_parallel",
            "max_model_len_tokens",
            "max_num_seqs",
            "max_num_batched_tokens",
            "stream_interval",
        ):
            _at_least(name, getattr(self, name), 1)
        _at_least("speculative_tokens", self.speculative_tokens, 0)
        _at_least("captured_tokens", self.captured_tokens, 0)
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError(f"gpu_memory_utilization must be above 0 and at most 1, got {self.gpu_memory_utilization}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A fleet of identical nodes. Raises ValueError."""

    nodes: int
    engine: EngineShape = field(default_factory=EngineShape)
    model: ModelShape = field(default_factory=of_the_article)
    gpu: Gpu = DEFAULT_MACHINE.gpu
    gpus_per_node: int = 8
    routing: Routing = "cluster-ip"
    slow_product: Defect | None = None
    """The release's defect that slows this model's products on this GPU."""

    def __post_init__(self) -> None:
        _at_least("nodes", self.nodes, 1)
        _at_least("gpus_per_node", self.gpus_per_node, 1)
        used = self.engine.data_parallel * self.engine.tensor_parallel
        if used > self.gpus_per_node:
            raise ValueError(
                f"data_parallel x tensor_parallel must be at most gpus_per_node, {self.gpus_per_node}, got {used}"
            )

    @property
    def layout(self) -> CacheLayout:
        """Cache layout of one GPU: tensor parallelism splits heads, and repeats KV heads if there are too few."""
        engine = self.engine
        return CacheLayout(
            architecture=self.model.architecture.on_one_of(engine.tensor_parallel),
            kv_cache_dtype=engine.kv_cache_dtype,
            speculative_tokens=engine.speculative_tokens,
            ssm_cache_dtype=engine.ssm_cache_dtype,
            prefix_caching=engine.prefix_caching,
            batched_tokens=engine.max_num_batched_tokens,
        )

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus_per_node

    def with_nodes(self, nodes: int) -> Deployment:
        """Return the same fleet with that many nodes."""
        return replace(self, nodes=nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedLoad:
    """Offered load: exactly one of requests in flight or requests/s."""

    in_flight: float | None = None
    """Closed-loop users, as in the article: each sends its next request after the last response."""
    requests_per_s: float | None = None
    """Open-loop arrival rate."""

    def __post_init__(self) -> None:
        given = [value for value in (self.in_flight, self.requests_per_s) if value is not None]
        if len(given) != 1:
            raise ValueError("exactly one of in_flight and requests_per_s is required")
        if not 0 < given[0] < inf:
            raise ValueError(f"in_flight and requests_per_s must be above 0 and finite, got {given[0]}")


def record_fleet(nodes: int, *, routing: Routing = "cluster-ip") -> Deployment:
    """The fleet of the article's tables, with its final options."""
    return Deployment(nodes=nodes, routing=routing, engine=EngineShape(max_num_batched_tokens=16_384))


def measured_load(nodes: int) -> OfferedLoad:
    """The article's load for that many nodes."""
    return OfferedLoad(in_flight=MEASURED_IN_FLIGHT_PER_NODE * nodes)


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise ValueError(f"{name} must be {least} or more, got {value}")
