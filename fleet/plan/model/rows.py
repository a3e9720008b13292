"""The article's rows by role: fitted, predicted, or check only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from facts import figures, ledger
from facts.models import CATALOGUE
from facts.workloads import Workload, named_workload
from fleet.plan.model.deployment import (
    MEASURED_IN_FLIGHT_PER_NODE,
    Deployment,
    EngineShape,
    OfferedLoad,
    measured_load,
    record_fleet,
)

Role = Literal["fitted", "predicted", "check"]
Metric = Literal[
    "total_tokens_per_s",
    "requests_per_s",
    "tpot_ms",
    "ttft_ms",
    "itl_ms",
    "itl_median_ms",
    "itl_p99_ms",
    "running_peak_per_engine",
    "kv_cache_peak_percent",
]

# Source: the article, phase 1: throughput was flat from 500 to 1,000 requests in flight, its limit being 512.
TP8_IN_FLIGHT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published reading and the matching input of the model."""

    id: str
    """`<figure>` for its throughput, `<figure>:<metric>` for anything else."""
    role: Role
    metric: Metric
    published: float
    deployment: Deployment
    workload: Workload
    offered: OfferedLoad


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

_FITTED_RUNS = {
    "cluster_ip.nodes-1": record_fleet(1),
    "cluster_ip.nodes-2": record_fleet(2),
    "gateway.nodes-2": record_fleet(2, routing="inference-gateway"),
}
# Phase 4b. Assumed: the final options without speculation, which the checkpoint may not include.
QWEN_397B = Deployment(
    nodes=1,
    model=CATALOGUE["nvidia/Qwen3.5-397B-A17B-NVFP4"].shape,
    engine=EngineShape(data_parallel=1, tensor_parallel=8, speculative_tokens=0, max_num_batched_tokens=16_384),
)
FITTED_LOADS: Mapping[Deployment, OfferedLoad] = {
    **{deployment: measured_load(deployment.nodes) for deployment in [*PHASES.values(), *_FITTED_RUNS.values()]},
    PHASES["phases.tp8"]: OfferedLoad(in_flight=TP8_IN_FLIGHT),
}
"""Fitted deployments and their load; with the article's workload, estimates for them are `fitted`."""


@cache
def rows() -> tuple[Row, ...]:
    """Every row to compare the model with, fitted ones first. The split is fixed."""
    return (*_fitted(), *_predicted(), *_checks())


def of_role(role: Role) -> tuple[Row, ...]:
    """The rows of one role."""
    return tuple(row for row in rows() if row.role == role)


def _fitted() -> Iterator[Row]:
    for figure in PHASES:
        yield _throughput(figure, "fitted")
    for figure in _FITTED_RUNS:
        yield _throughput(figure, "fitted")
    for figure in ("cluster_ip.nodes-1", "cluster_ip.nodes-2"):
        yield _latency(figure, "fitted", "tpot_ms")
        yield _latency(figure, "fitted", "ttft_ms")


def _predicted() -> Iterator[Row]:
    first = [f"cluster_ip.nodes-{nodes}" for nodes in (4, 8, 12)]
    second = [f"cluster_ip_rerun.nodes-{nodes}" for nodes in (1, 2, 4)]
    for figure in (*first, *second, "gateway.nodes-4", "gateway.nodes-8"):
        yield _throughput(figure, "predicted")
    for figure in (*first, *second):
        yield _latency(figure, "predicted", "tpot_ms")
    for figure in (*first, *second):
        yield _latency(figure, "predicted", "ttft_ms")
    for figure in second:
        details = figures.published(figure).details
        peaks: tuple[tuple[Metric, float], ...] = (
            ("running_peak_per_engine", details["requests_running_peak"]),
            ("kv_cache_peak_percent", details["kv_cache_peak_percent"]),
        )
        yield from _readings(figure, "predicted", peaks)


def _checks() -> Iterator[Row]:
    # The first run again, as requests/s: not counted as predicted a second time, and two of its rows are fitted.
    for id_, user_row in ledger.section("users", "figures").items():
        yield _row(
            f"users.{id_}",
            "check",
            "requests_per_s",
            user_row["requests_per_s"],
            record_fleet(user_row["replicas"]),
        )
    for nodes in (1, 2, 4):
        figure = f"cluster_ip_rerun.nodes-{nodes}"
        itl = figures.published(figure).details["itl_ms"]
        readings: tuple[tuple[Metric, float], ...] = (
            ("itl_ms", itl["mean"]),
            ("itl_median_ms", itl["median"]),
            ("itl_p99_ms", itl["p99"]),
        )
        yield from _readings(figure, "check", readings)
    yield _row("phases.qwen-397b", "check", "total_tokens_per_s", _total("phases.qwen-397b"), QWEN_397B)


def _readings(figure: str, role: Role, readings: tuple[tuple[Metric, float], ...]) -> Iterator[Row]:
    fleet = record_fleet(figures.published(figure).shape.replicas)
    for metric, published in readings:
        yield _row(f"{figure}:{metric}", role, metric, published, fleet)


def _throughput(figure: str, role: Role) -> Row:
    published = figures.published(figure)
    deployment = PHASES.get(figure) or record_fleet(
        published.shape.replicas,
        # Nothing was published behind a router or a load balancer.
        routing="inference-gateway" if published.shape.routing == "inference-gateway" else "cluster-ip",
    )
    return _row(figure, role, "total_tokens_per_s", _total(figure), deployment)


def _latency(figure: str, role: Role, metric: Metric) -> Row:
    published = figures.published(figure)
    value = published.tpot_median_ms if metric == "tpot_ms" else published.ttft_median_ms
    assert value is not None
    return _row(f"{figure}:{metric}", role, metric, value, record_fleet(published.shape.replicas))


def _row(id_: str, role: Role, metric: Metric, published: float, deployment: Deployment) -> Row:
    return Row(
        id=id_,
        role=role,
        metric=metric,
        published=published,
        deployment=deployment,
        workload=named_workload("article"),
        offered=FITTED_LOADS.get(deployment, measured_load(deployment.nodes)),
    )


def _total(figure: str) -> float:
    total = figures.published(figure).total_tokens_per_s
    assert total is not None
    return float(total)
