"""Goals, capacity and readings of a plan as the words that every report prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from planner.goals import Batch, Budget, RequestsPerSecond, TokensPerSecond, Users

if TYPE_CHECKING:
    from planner.estimates import Estimate
    from planner.goals import PlanQuestion

ROUTING_IN_WORDS: Final[Mapping[str, str]] = {
    "cluster-ip": "behind a plain Service",
    "inference-gateway": "behind the Inference Gateway",
}


def goal_in_words(question: PlanQuestion) -> str:
    """The goal with its requests' lengths: `16,000 users, 768 tokens in and 384 out`."""
    workload = question.workload
    lengths = f"{workload.input_tokens.mean:,g} tokens in and {workload.output_tokens.mean:,g} out"
    match question.goal:
        case TokensPerSecond(total_tokens_per_s=amount):
            return f"{amount:,.0f} tok/s in total, {lengths}"
        case Users(count=amount):
            return f"{amount:,.0f} users, {lengths}"
        case RequestsPerSecond(requests_per_s=amount):
            return f"{amount:,g} requests/s, {lengths}"
        case Budget(usd_per_hour=amount):
            return f"${amount:,.2f} an hour, {lengths}"
        case Batch(documents=count):
            return f"{count:,} documents, {lengths}"


def reading(value: float) -> str:
    """A number with as many digits as it deserves: 19.4M, 1,104, 83.1, 0.52."""
    if abs(value) >= 1e7:
        return f"{value / 1e6:,.1f}M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def range_in_words(estimate: Estimate) -> str:
    """The interval; where the plan sets the value, that it does."""
    if estimate.low == estimate.high:
        return "as planned"
    return f"{reading(estimate.low)} to {reading(estimate.high)}"
