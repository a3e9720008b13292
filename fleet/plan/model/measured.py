"""The article's runs as input of the model: which engines it measured, and at which load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fleet.plan.model.deployment import (
    MEASURED_IN_FLIGHT_PER_NODE,
    Deployment,
    EngineShape,
    OfferedLoad,
    measured_load,
    record_fleet,
)

# Source: the article, phase 1: throughput was flat from 500 to 1,000 requests in flight, its limit being 512.
TP8_IN_FLIGHT = 1_000

# Configuration before vLLM 0.18.0 where the article states it; else vLLM's defaults.
_BEFORE_PHASE_4 = EngineShape(kv_cache_dtype="auto", gpu_memory_utilization=0.9, estimate_cudagraphs=False)
# Source: the article, phase 2: max-num-seqs raised to 8192.
_PHASE_2 = replace(_BEFORE_PHASE_4, max_num_seqs=8_192)


def _phase_4(speculative_tokens: int) -> Deployment:
    engine = EngineShape(
        speculative_tokens=speculative_tokens, gpu_memory_utilization=0.95, max_num_batched_tokens=16_384
    )
    return Deployment(nodes=1, engine=engine)


PHASES = {
    "phases.tp8": Deployment(
        nodes=1,
        engine=replace(
            _BEFORE_PHASE_4, data_parallel=1, tensor_parallel=8, max_model_len_tokens=131_072, max_num_seqs=512
        ),
    ),
    "phases.dp8": Deployment(nodes=1, engine=replace(_PHASE_2, max_model_len_tokens=131_072)),
    "phases.dp8-4096": Deployment(nodes=1, engine=replace(_PHASE_2, max_model_len_tokens=4_096)),
    "phases.mtp1-092": record_fleet(1),
    "phases.mtp2-095": _phase_4(2),
    "phases.no-mtp-095": _phase_4(0),
}
"""Deployments of the article's one-node phases, by figure."""

MEASURED_ENGINES: Mapping[EngineShape, float] = {
    record_fleet(1).engine: float(MEASURED_IN_FLIGHT_PER_NODE),
    **{fleet.engine: float(MEASURED_IN_FLIGHT_PER_NODE) for fleet in PHASES.values()},
    _phase_4(1).engine: float(MEASURED_IN_FLIGHT_PER_NODE),
    PHASES["phases.tp8"].engine: float(TP8_IN_FLIGHT),
}
"""Engine options with a published throughput, and the requests in flight per node; the record first."""

FITTED_RUNS = {
    **PHASES,
    "cluster_ip.nodes-1": record_fleet(1),
    "cluster_ip.nodes-2": record_fleet(2),
    "gateway.nodes-2": record_fleet(2, routing="inference-gateway"),
}
"""Deployments to whose throughput the model was fitted, by figure."""

FITTED_LOADS: Mapping[Deployment, OfferedLoad] = {
    **{deployment: measured_load(deployment.nodes) for deployment in FITTED_RUNS.values()},
    PHASES["phases.tp8"]: OfferedLoad(in_flight=TP8_IN_FLIGHT),
}
"""Fitted deployments and their load; with the article's workload, estimates for them are `fitted`."""
