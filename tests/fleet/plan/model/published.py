"""The model's errors on the article's rows, and its fit to those that determine a parameter.

The fit: least squares on the logarithms of throughput and time per token. The gain of a second node and the cost of the gateway are
ratios within one table, so that variation between days cancels out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, inf, log
from typing import Literal

import numpy as np

from facts import figures, ledger
from facts.models import CATALOGUE
from facts.workloads import named_workload
from fleet.plan.model.calibration import Parameters, calibration, contents
from fleet.plan.model.deployment import Deployment, EngineShape, OfferedLoad, measured_load, record_fleet
from fleet.plan.model.estimates import Estimate
from fleet.plan.model.fleet_rate import fleet_load
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.latency import per_token_s
from fleet.plan.model.measured import FITTED_LOADS, FITTED_RUNS
from fleet.plan.model.performance import estimate

ARTICLE = named_workload("article")
Role = Literal["fitted", "predicted", "check"]
# Phase 4b. Assumed: the final options without speculation, which the checkpoint may not include.
_QWEN_397B = Deployment(
    nodes=1,
    model=CATALOGUE["nvidia/Qwen3.5-397B-A17B-NVFP4"].shape,
    engine=EngineShape(data_parallel=1, tensor_parallel=8, speculative_tokens=0, max_num_batched_tokens=16_384),
)
# Rows that determine scaling; solved by their ratios, not fitted.
_RATIO_ROWS = ("cluster_ip.nodes-2", "gateway.nodes-2")
FITTED = tuple(contents()["fitted"])
LEAST_SQUARES = tuple(name for name in FITTED if name not in ("contention_per_node", "gateway_share"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published reading and the matching input of the model."""

    id: str
    """`<figure>` for its throughput, `<figure>:<metric>` for a latency."""
    role: Role
    metric: str
    published: float
    deployment: Deployment

    @property
    def offered(self) -> OfferedLoad:
        """The run's load."""
        return FITTED_LOADS.get(self.deployment, measured_load(self.deployment.nodes))

    @property
    def predicted(self) -> Estimate:
        """The model's answer."""
        found: Estimate = getattr(estimate(self.deployment, ARTICLE, self.offered), self.metric)
        return found

    @property
    def is_within(self) -> bool:
        """Whether its interval holds the published value."""
        found = self.predicted
        return found.low <= self.published <= found.high

    @property
    def error_percent(self) -> float:
        """Its error."""
        return 100 * (self.predicted.value / self.published - 1)


@cache
def rows(*roles: Role) -> tuple[Row, ...]:
    """The rows of those roles, all without any. The split was fixed before the fit."""
    return tuple(row for row in _rows() if row.role in roles or not roles)


def _rows() -> Iterator[Row]:
    first, second = ("cluster_ip.nodes-{}", (4, 8, 12)), ("cluster_ip_rerun.nodes-{}", (1, 2, 4))
    for figure, deployment in FITTED_RUNS.items():
        yield _throughput(figure, "fitted", deployment)
    for nodes in (1, 2):
        yield from _latencies(f"cluster_ip.nodes-{nodes}", "fitted", nodes)
    for name, counts in (first, second):
        for nodes in counts:
            yield _throughput(name.format(nodes), "predicted", record_fleet(nodes))
            yield from _latencies(name.format(nodes), "predicted", nodes)
    for nodes in (4, 8):
        yield _throughput(f"gateway.nodes-{nodes}", "predicted", record_fleet(nodes, routing="inference-gateway"))
    # The first run again, as requests/s: not counted as predicted a second time, and two of its rows are fitted.
    for id_, users in ledger.section("users", "figures").items():
        fleet, rate = record_fleet(users["replicas"]), users["requests_per_s"]
        yield Row(id=f"users.{id_}", role="check", metric="requests_per_s", published=rate, deployment=fleet)
    yield _throughput("phases.qwen-397b", "check", _QWEN_397B)


def _throughput(figure: str, role: Role, deployment: Deployment) -> Row:
    return Row(id=figure, role=role, metric="total_tokens_per_s", published=total(figure), deployment=deployment)


def _latencies(figure: str, role: Role, nodes: int) -> Iterator[Row]:
    found = figures.published(figure)
    for metric, published in (("tpot_ms", found.tpot_median_ms), ("ttft_ms", found.ttft_median_ms)):
        assert published is not None
        deployment = record_fleet(nodes)
        yield Row(id=f"{figure}:{metric}", role=role, metric=metric, published=published, deployment=deployment)


def total(figure: str) -> float:
    """A figure's published throughput."""
    return float(figures.published(figure).total_tokens_per_s or 0)


# The fit --------------------------------------------------------------------------------------------------------------


def kept() -> list[Row]:
    """Rows of the least-squares fit: throughput of one node, and time per token."""
    return [row for row in rows("fitted") if row.metric != "ttft_ms" and row.id not in _RATIO_ROWS]


def fit(start: Parameters) -> Parameters:
    """The parameters that the fitted rows give."""
    best = least_squares(start, LEAST_SQUARES, kept())
    one, two, gateway = (total(figure) for figure in ("cluster_ip.nodes-1", *_RATIO_ROWS))
    record = record_fleet(1)
    room = budget(record, ARTICLE)
    engine = fleet_load(record, ARTICLE, measured_load(1), best, room).engine
    return replace(
        best,
        contention_per_node=2 * one / two - 1,
        gateway_share=two / gateway - 1,
        wait_share=best.wait_s / (engine.seconds_per_request - best.wait_s),
    )


def residuals(parameters: Parameters, kept_: Sequence[Row]) -> list[float]:
    """Logarithms of predicted over published."""
    found = []
    for row in kept_:
        room = budget(row.deployment, ARTICLE)
        load = fleet_load(row.deployment, ARTICLE, row.offered, parameters, room)
        per_token_ms, rate = 1e3 * per_token_s(load, ARTICLE, 0), load.requests_per_s * ARTICLE.tokens_per_request
        found.append(log((per_token_ms if row.metric == "tpot_ms" else rate) / row.published))
    return found


def least_squares(start: Parameters, names: Sequence[str], kept_: Sequence[Row]) -> Parameters:
    """Gauss's method over the logarithms of the named parameters, which keeps them positive; a step that would miss is shortened.

    The wait is fitted in seconds: its share is the record's, which no fitted row exceeds.
    """
    best = replace(start, wait_share=inf)
    here = np.array(residuals(best, kept_))
    for _ in range(50):
        moved = [_scaled(best, [name], [1e-5]) for name in names]
        slopes = (np.array([residuals(one, kept_) for one in moved]) - here).T / 1e-5
        step = np.clip(np.linalg.lstsq(slopes, -here)[0], -0.5, 0.5)
        there = np.array(residuals(candidate := _scaled(best, names, step.tolist()), kept_))
        while there @ there > here @ here and abs(step).max() > 1e-9:
            step /= 2
            there = np.array(residuals(candidate := _scaled(best, names, step.tolist()), kept_))
        best, here = candidate, there
        if abs(step).max() < 1e-7:
            break
    return best


def _scaled(parameters: Parameters, names: Sequence[str], by: Sequence[float]) -> Parameters:
    steps = zip(names, by, strict=True)
    return replace(parameters, **{name: getattr(parameters, name) * exp(step) for name, step in steps})


def left_out() -> dict[str, float]:
    """Errors in percent of each configuration, left out of the fit.

    Phases 1 and 2 cannot be left out: each alone determines one parameter. The record's TPOT stays: it determines the wait.
    """
    taken = calibration()
    found: dict[str, float] = {}
    record = ("phases.mtp1-092", "cluster_ip.nodes-1")
    for configuration in (("phases.dp8-4096",), ("phases.no-mtp-095",), ("phases.mtp2-095",), record):
        others = [row for row in kept() if row.id not in configuration]
        again = least_squares(taken.parameters, LEAST_SQUARES, others)
        for row in (row for row in kept() if row.id in configuration):
            found[row.id] = 100 * (exp(residuals(again, [row])[0]) - 1)
    return found
