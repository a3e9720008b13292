"""Types of a plan, which fleet/plan/planning.py makes from a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from facts.cost import Bill
from facts.figures import Match
from facts.sizing import Sizing
from facts.time_to_serve import TimeToServe
from fleet.plan.economics import ApiPrice
from fleet.plan.model.deployment import Deployment
from fleet.plan.model.performance import Performance
from fleet.plan.question.goals import Batch, PlanQuestion, Users

SECONDS_PER_HOUR = 3600
FullLoadLimit = Literal[
    "the article's load",
    "the latency limits",
    "throughput",
    "max_num_seqs",
    "cache memory",
    "max_num_batched_tokens",
]
"""`throughput`: more requests in flight would lower it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerMillion:
    """Price per million tokens: one cost divided two ways, not two parts."""

    total_usd: float
    """Cost per million input and output tokens."""
    output_usd: float
    """The same cost per million output tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiComparison:
    """Comparison of the fleet with one API."""

    price: ApiPrice
    usd_per_million: float
    """The API's price per million tokens in this plan's mix."""
    exact_mix: bool
    """Whether the price is for this plan's mix; else for the article's, two input tokens per output token."""
    break_even_utilisation: float | None
    """Share of full load from which the fleet is cheaper. Above 1: never. None if the node price is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Cost of the fleet. Every amount is a lower bound if `bill.unknown` is not empty."""

    bill: Bill
    """One hour with every node running."""
    usd_per_node_hour: float | None
    """None if no dated price is known and none was stated; then there is no price per million tokens."""
    usd_per_month: float
    """730 hours."""
    at_load: PerMillion | None
    """At the planned load."""
    at_full_load: PerMillion | None
    """With every node at full load."""
    apis: tuple[ApiComparison, ...]
    """Cheapest first."""

    @property
    def usd_per_hour(self) -> float:
        """Hourly cost of the items with a known price."""
        return self.bill.usd_per_hour_known

    @property
    def at_least(self) -> bool:
        """Whether amounts are lower bounds because prices are unknown."""
        return bool(self.bill.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One latency limit and the planned latency."""

    name: Literal["TTFT p99", "TPOT"]
    limit_ms: float
    expected_ms: float
    high_ms: float
    """High end of the interval, which is compared with the limit."""

    @property
    def holds(self) -> bool:
        """Whether the high end is within the limit."""
        return self.high_ms <= self.limit_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """Duration and cost of a batch, from the first API call."""

    documents: int
    input_tokens: float
    output_tokens: float
    """Sum over all documents."""
    in_flight: float
    """Documents in parallel."""
    start_hours: float
    """Likely time to first response."""
    work_hours: float
    """Processing at the planned share of full load; the rest is the deadline's margin."""
    work_low_hours: float
    """At the high end of full load."""
    work_high_hours: float
    """At the low end of full load, if slower than planned."""
    deadline_hours: float | None
    usd: float | None
    """Nodes from their request to the last response, everything else from the beginning; None if the node price is unknown."""
    usd_low: float | None
    """The same if processing takes `work_low_hours`."""
    usd_high: float | None
    """The same if it takes `work_high_hours`."""
    usd_per_million: PerMillion | None
    usd_per_hour_after: float
    """Cost at 0 replicas, known prices only."""

    @property
    def total_hours(self) -> float:
        """Start-up and processing."""
        return self.start_hours + self.work_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A fleet for a goal."""

    question: PlanQuestion
    nodes: int
    deployment: Deployment
    in_flight_per_node: float
    """Requests in flight per node at full load, the highest throughput."""
    full_load_limit: FullLoadLimit
    """Why full load is not higher."""
    performance: Performance
    """At the planned load; for a batch at full load."""
    maximum: Performance
    """At full load."""
    money: Money
    sizing: Sizing
    """Infrastructure."""
    time_to_serve: TimeToServe
    """From the question's starting point to the first response."""
    restart: TimeToServe
    """Restart of one node, cluster and weights in place: after a loss, or from 0 replicas."""
    published: Match
    """Published row nearest to the planned stack."""
    verdicts: tuple[Verdict, ...]
    batch: BatchRun | None
    remarks: tuple[str, ...]
    """Notes, most serious first."""

    @property
    def gpus(self) -> int:
        """Billed GPUs."""
        return self.deployment.gpus

    @property
    def utilisation(self) -> float:
        """Planned load as a share of full load: by users for users and batches, else by requests/s.

        Above 1 if there are more users than give the highest throughput. For users requests/s would hide that: contention
        cancels what the last users add.
        """
        now, full, goal = self.performance, self.maximum, self.question.goal
        if isinstance(goal, Users):
            return goal.users / full.in_flight
        if isinstance(goal, Batch):
            return now.in_flight / full.in_flight
        return now.requests_per_s.value / full.requests_per_s.value

    @property
    def label(self) -> str:
        """Confidence, as reports show it: `roofline x/÷ 2`."""
        return self.performance.label

    @property
    def is_bound(self) -> bool:
        """Whether the GPU was never measured, so that nodes, hours and dollars are lower bounds."""
        return self.performance.is_bound
