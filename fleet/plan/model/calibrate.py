"""Fit the planner's parameters to the article's rows and compare them with fleet/plan/model/calibration.yaml.

`python -m fleet.plan.model.calibrate` prints the fit and the error of every row; `--write` updates the fitted numbers in the file.

Method: Levenberg-Marquardt least squares on the logarithms of throughput and time per token. The gain of a second node and the
cost of the gateway are ratios within one table, so that variation between days cancels out.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp, inf, log

from facts import figures, ledger, memory
from facts.workloads import named_workload
from fleet.plan.model.calibration import FILE, FITTED, Calibration, MemoryParameters, Parameters, calibration
from fleet.plan.model.deployment import Deployment, measured_load, record_fleet
from fleet.plan.model.fleet_rate import FleetLoad, fleet_load
from fleet.plan.model.gpu_memory import budget
from fleet.plan.model.latency import per_token_s
from fleet.plan.model.performance import estimate
from fleet.plan.model.rows import PHASES, Row, of_role, rows

# An error of 1 % counts as a residual of 1.
SIGMA = 0.01
# Rows that determine scaling; solved by their ratios, not fitted.
_RATIO_ROWS = ("cluster_ip.nodes-2", "gateway.nodes-2")
# Source: facts/data/cluster_ip.yaml: the only rounded row, to thousands.
_ROUNDED_ROW, _ROUNDED_BY = "cluster_ip.nodes-2", 500
_SOLVED = ("contention_per_node", "gateway_share")
_LEAST_SQUARES = tuple(name for name in FITTED if name not in _SOLVED)
# A variant fixes host time at another value and fits the cost of a token to the record's rows, without phases 1 to 3.
_VARIANT_FREE = ("gpu_share", "traffic_over_arithmetic")
_VARIANT_ROWS = ("phases.mtp1-092", "phases.mtp2-095", "phases.no-mtp-095", "cluster_ip.nodes-1")

CONFIGURATIONS = (
    ("phases.dp8-4096",),
    ("phases.no-mtp-095",),
    ("phases.mtp2-095",),
    ("phases.mtp1-092", "cluster_ip.nodes-1"),
)
"""Figures of each configuration for leave-one-out validation."""

Residuals = Callable[[Parameters], Sequence[float]]


def fit_memory() -> MemoryParameters:
    """Solve activations and CUDA graphs from the article's two cache sizes."""
    sizes = ledger.section("memory", "values")
    nothing = MemoryParameters(activations_gib=0.0, cuda_graphs_gib=0.0)

    def left_gib(deployment: Deployment, tokens: int) -> float:
        layout = deployment.layout
        # The size is printed in thousands: take the block multiple with those leading digits.
        groups = 1 + memory.linear_groups(layout)
        blocks = -(-tokens // memory.attention_block_tokens(layout)) * groups
        # vLLM rounds down twice: take the middle of the range that prints the same.
        cache_gib = (blocks + groups / 2) * memory.pool_block_bytes(layout) / memory.GIB
        return budget(deployment, taken=nothing).cache_gib - cache_gib

    # Before phase 4, graphs were outside the budget.
    activations_gib = left_gib(PHASES["phases.dp8-4096"], sizes["kv-tokens-before"]["value"])
    with_graphs_gib = left_gib(record_fleet(1), sizes["kv-tokens-fp8"]["value"])
    return MemoryParameters(activations_gib=activations_gib, cuda_graphs_gib=with_graphs_gib - activations_gib)


def fit(start: Parameters, memory_parameters: MemoryParameters) -> Parameters:
    """Fit the parameters to the fitted rows."""
    best = _least_squares(start, _LEAST_SQUARES, _residuals(_kept(), memory_parameters))
    one, two, gateway = (_published(name) for name in ("cluster_ip.nodes-1", *_RATIO_ROWS))
    return replace(
        best,
        contention_per_node=2 * one / two - 1,
        gateway_share=two / gateway - 1,
        wait_share=_wait_share(best, memory_parameters),
    )


def _wait_share(parameters: Parameters, memory_parameters: MemoryParameters) -> float:
    """The record's wait, of a request's time in the engine."""
    fleet, workload = record_fleet(1), named_workload("article")
    room = budget(fleet, workload, taken=memory_parameters)
    engine = fleet_load(fleet, workload, measured_load(1), replace(parameters, wait_share=inf), room).engine
    return parameters.wait_s / (engine.seconds_per_request - parameters.wait_s)


def left_out() -> Mapping[str, float]:
    """Leave-one-out errors in percent, by figure.

    Phases 1 and 2 cannot be left out: each alone determines one parameter. The record's TPOT stays: it determines the wait.
    """
    taken, memory_parameters = calibration(), fit_memory()
    found = {}
    for figures_ in CONFIGURATIONS:
        there = [row for row in _kept() if row.id not in figures_]
        again = _least_squares(taken.parameters, _LEAST_SQUARES, _residuals(there, memory_parameters))
        for row in (row for row in _kept() if row.id in figures_):
            room = budget(row.deployment, row.workload, taken=memory_parameters)
            load = fleet_load(row.deployment, row.workload, row.offered, again, room)
            found[row.id] = 100 * (_total(load, row) / row.published - 1)
    return found


def fit_variant(best: Parameters, memory_parameters: MemoryParameters, host_ms_per_step: float) -> Parameters:
    """Fit the record's rows with host time held at that value."""
    fitted = of_role("fitted")
    kept = [row for row in fitted if row.id in _VARIANT_ROWS]
    start = replace(best, host_ms_per_step=host_ms_per_step)
    return _least_squares(start, _VARIANT_FREE, _residuals(kept, memory_parameters))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the fit, or write it with --write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="update fleet/plan/model/calibration.yaml")
    options = parser.parse_args(arguments)
    taken = calibration()
    memory_parameters = fit_memory()
    best = fit(taken.parameters, memory_parameters)
    found = _numbers(taken, best, memory_parameters)
    for (section, name), value in found.items():
        print(f"{section}.{name}: {value}")  # noqa: T201
    if options.write:
        FILE.write_text(_with_numbers(FILE.read_text(encoding="utf-8"), found), encoding="utf-8")
        print(f"written: {FILE}; run it again without --write for the errors")  # noqa: T201
        return 0
    for row in rows():
        predicted = getattr(estimate(row.deployment, row.workload, row.offered), row.metric).value
        error = 100 * (predicted / row.published - 1)
        print(f"{row.role:9} {row.id:50} {row.published:12,.1f} {predicted:12,.1f} {error:+6.1f} %")  # noqa: T201
    return 0


def _numbers(
    taken: Calibration, best: Parameters, memory_parameters: MemoryParameters
) -> Mapping[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for name in (*_LEAST_SQUARES, "contention_per_node", "gateway_share"):
        found["fitted", name] = _rounded(getattr(best, name))
    for variant, parameters in taken.variants.items():
        refitted = fit_variant(best, memory_parameters, parameters.host_ms_per_step)
        for name in _VARIANT_FREE:
            found[f"variants.{variant}", name] = _rounded(getattr(refitted, name))
    found["derived", "wait_share"] = _rounded(best.wait_share)
    one, two = (_published(name) for name in ("cluster_ip.nodes-1", _ROUNDED_ROW))
    for end, by in (("low", -_ROUNDED_BY), ("high", _ROUNDED_BY)):
        found[f"rounding.{end}", "contention_per_node"] = _rounded(2 * one / (two + by) - 1)
    for name in ("activations_gib", "cuda_graphs_gib"):
        found["memory", name] = _rounded(getattr(memory_parameters, name))
    return found


def _kept() -> list[Row]:
    """Rows of the least-squares fit: throughput of one node, and time per token."""
    return [row for row in of_role("fitted") if row.metric != "ttft_ms" and row.id not in _RATIO_ROWS]


def _residuals(kept: Sequence[Row], memory_parameters: MemoryParameters) -> Residuals:
    rooms = [budget(row.deployment, row.workload, taken=memory_parameters) for row in kept]

    def residuals(parameters: Parameters) -> list[float]:
        found = []
        for row, room in zip(kept, rooms, strict=True):
            load = fleet_load(row.deployment, row.workload, row.offered, parameters, room)
            if row.metric == "tpot_ms":
                found.append(log(1e3 * per_token_s(load, row.workload, 0) / row.published) / SIGMA)
            else:
                found.append(log(_total(load, row) / row.published) / SIGMA)
        return found

    return residuals


def _total(load: FleetLoad, row: Row) -> float:
    return load.requests_per_s * row.workload.tokens_per_request


def _published(figure: str) -> float:
    total = figures.published(figure).total_tokens_per_s
    assert total is not None
    return float(total)


def _least_squares(start: Parameters, names: Sequence[str], residuals: Residuals) -> Parameters:
    """Levenberg-Marquardt over the logarithms of the named parameters, which keeps them positive.

    The wait is fitted in seconds: its share is the record's, which no fitted row exceeds.
    """
    best, damping = replace(start, wait_share=inf), 1e-3
    cost = _cost(residuals(best))
    for _ in range(200):
        here = residuals(best)
        slopes = [
            [(there - now) / 1e-5 for now, there in zip(here, residuals(_scaled(best, {name: 1e-5})), strict=True)]
            for name in names
        ]
        step = _solve(slopes, here, damping)
        candidate = _scaled(best, {name: max(-0.5, min(0.5, by)) for name, by in zip(names, step, strict=True)})
        candidate_cost = _cost(residuals(candidate))
        if candidate_cost < cost:
            gained = cost - candidate_cost
            best, cost, damping = candidate, candidate_cost, damping / 3
            if gained < 1e-13:
                break
        else:
            damping *= 4
            if damping > 1e12:
                break
    return replace(best, wait_share=start.wait_share)


def _scaled(parameters: Parameters, by: Mapping[str, float]) -> Parameters:
    return replace(parameters, **{name: getattr(parameters, name) * exp(step) for name, step in by.items()})


def _cost(residuals: Sequence[float]) -> float:
    return sum(residual * residual for residual in residuals)


def _solve(slopes: Sequence[Sequence[float]], residuals: Sequence[float], damping: float) -> list[float]:
    """Solve the damped normal equations by Gaussian elimination with pivoting."""
    count = len(slopes)
    rows_ = [
        [_dot(slopes[i], slopes[j]) * (1 + damping if i == j else 1) for j in range(count)]
        + [-_dot(slopes[i], residuals)]
        for i in range(count)
    ]
    for i in range(count):
        pivot = max(range(i, count), key=lambda k: abs(rows_[k][i]))
        rows_[i], rows_[pivot] = rows_[pivot], rows_[i]
        for k in range(i + 1, count):
            factor = rows_[k][i] / rows_[i][i]
            rows_[k] = [a - factor * b for a, b in zip(rows_[k], rows_[i], strict=True)]
    step = [0.0] * count
    for i in reversed(range(count)):
        step[i] = (rows_[i][count] - _dot(rows_[i][i + 1 : count], step[i + 1 :])) / rows_[i][i]
    return step


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _with_numbers(text: str, found: Mapping[tuple[str, str], float]) -> str:
    """Replace the fitted numbers in the file's text, keeping everything else."""
    path: list[str] = []
    lines = []
    for line in text.splitlines():
        if match := re.match(r"( *)([\w-]+):", line):
            path = [*path[: len(match[1]) // 2], match[2]]
        keys = path[:-1] if path[-1:] == ["value"] else path
        key = (".".join(keys[:-1]), keys[-1]) if keys else ("", "")
        if key in found:
            line = re.sub(r"(\bvalue: )[^,}\s]+", rf"\g<1>{found[key]}", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
