"""Labels of goals, capacities and routings, shared by every report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from facts.machines import DEFAULT_MACHINE
from facts.texts import plural
from fleet.plan.question.goals import Batch, Budget, RequestsPerSecond, TokensPerSecond, Users
from fleet.report.words import format_number, format_usd

if TYPE_CHECKING:
    from facts.figures import Figure
    from facts.machines import Machine
    from facts.workloads import Lengths, Workload
    from fleet.plan.model.estimates import Estimate
    from fleet.plan.question.goals import PlanQuestion

CAPACITIES: Final[Mapping[str, str]] = {
    "on-demand": "on-demand capacity",
    "spot": "Spot",
    "cud-1y": "a reservation priced by a 1-year commitment",
    "cud-3y": "a reservation priced by a 3-year commitment",
    "flex-start": "flex-start",
    "calendar": "a calendar reservation",
    "reservation": "a reservation",
    "compute-class": "a ComputeClass (a reservation if you name one, Spot, flex-start)",
}
ROUTINGS: Final[Mapping[str, str]] = {
    "cluster-ip": "a plain Service",
    "inference-gateway": "the Inference Gateway",
    "router": "routers",
    "llm-d-picker": "the Inference Gateway with llm-d's picker",
    "load-balancer": "a load balancer",
}
# Source: AI Hypercomputer, consumption options, 2026-04: Spot and flex-start count as preemptible, calendar mode uses no quota.
_QUOTAS: Final[Mapping[str, str]] = {
    "on-demand": "{gpus}",
    "spot": "{gpus}, preemptible",
    "cud-1y": "{gpus}, held by the reservation",
    "cud-3y": "{gpus}, held by the reservation",
    "flex-start": "{gpus}, preemptible",
    "calendar": "none: a calendar reservation ({gpus}) uses no quota",
    "reservation": "{gpus}, held by the reservation",
    "compute-class": "{gpus}, preemptible; fewer where a reservation serves some",
}


def format_quota(capacity: str, gpus: int, machine: Machine) -> str:
    """The GPU quota to request."""
    return _QUOTAS[capacity].format(gpus=plural(gpus, f"{machine.gpu.name} GPU"))


def format_nodes(count: int, machine: Machine, gpus: int) -> str:
    """`10 A4 nodes (80 B200)`; other machines by their type."""
    name = f"{machine.family.upper()} node" if machine == DEFAULT_MACHINE else f"{machine.type} node"
    return f"{plural(count, name)} ({gpus:,} {machine.gpu.name})"


def format_goal(question: PlanQuestion) -> str:
    """The goal: `16,000 users`."""
    match question.goal:
        case TokensPerSecond(total_tokens_per_s=amount):
            return f"{amount:,.0f} tok/s in total"
        case Users(users=amount):
            return f"{amount:,.0f} {'user' if amount == 1 else 'users'}"
        case RequestsPerSecond(requests_per_s=amount):
            return f"{amount:,g} requests/s"
        case Budget(usd_per_hour=amount):
            return f"{format_usd(amount)} an hour"
        case Batch(documents=count):
            return f"{count:,} documents"


def format_mean_lengths(workload: Workload) -> str:
    """Mean lengths of a request: `768 tokens in and 384 out`."""
    return f"{workload.input_tokens.mean:,g} tokens in and {workload.output_tokens.mean:,g} out"


def format_lengths(workload: Workload) -> str:
    """Request lengths, shortest to longest."""
    return f"{_range(workload.input_tokens)} tokens in, {_range(workload.output_tokens)} out"


def _range(lengths: Lengths) -> str:
    if lengths.min == lengths.max:
        return f"{lengths.max:,}"
    return f"{lengths.min:,} to {lengths.max:,} (mean {lengths.mean:,.0f})"


def format_span(estimate: Estimate, words: Callable[[float], str] = format_number) -> str:
    """`low to high`, or "given" where the goal states the value."""
    low, high = words(estimate.low), words(estimate.high)
    return f"{low} to {high}" if estimate.low != estimate.high else "given"


def format_figure(figure: Figure) -> str:
    """Published throughput, total and output, and the latencies published with it."""
    if figure.total_tokens_per_s is None:
        return figure.outcome or "no rate published"
    parts = [f"{figure.total_tokens_per_s:,} tok/s total"]
    if figure.output_tokens_per_s is not None:
        parts.append(f"{figure.output_tokens_per_s:,} tok/s output")
    if figure.tpot_median_ms is not None:
        parts.append(f"TPOT median {figure.tpot_median_ms:,.0f} ms")
    if figure.ttft_median_ms is not None:
        parts.append(f"TTFT median {figure.ttft_median_ms:,.0f} ms")
    return " · ".join(parts)
