"""A plan: the answer to a question of fleet/plan/question/goals.py, with every number accounted for. fleet/plan/planning.py makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from facts.cost import Bill
from facts.figures import Match
from facts.sizing import Sizing
from facts.time_to_serve import TimeToServe
from fleet.plan.economics import ApiPrice
from fleet.plan.model.deployment import Deployment, Routing
from fleet.plan.model.estimates import Basis
from fleet.plan.model.performance import Performance
from fleet.plan.question.goals import Batch, Capacity, PlanQuestion, Users

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class PerMillion:
    """Dollars for a million tokens. Two readings of one sum, not two parts of it."""

    total_usd: float
    """For a million input and output tokens."""
    output_usd: float
    """The whole sum over the output tokens alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiComparison:
    """The fleet against one API."""

    price: ApiPrice
    usd_per_million: float
    """What the API asks for a million tokens of this plan's mix of input and output."""
    exact_mix: bool
    """Whether that is this plan's own mix; otherwise the article's two input tokens to one output token."""
    break_even_utilisation: float | None
    """Share of the fleet's maximum from which it is cheaper. Above 1: never. None where the nodes' price is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What the fleet costs. Every amount is a lower bound where `bill.unknown` names items."""

    bill: Bill
    """An hour in which every machine runs."""
    usd_per_node_hour: float | None
    """None where no dated price is known and the question states none: there is no price of a million tokens then."""
    usd_per_month: float
    """730 hours, of which the share of `duty` is worked; the rest costs what stays."""
    at_load: PerMillion | None
    """At the plan's load, over a month with its duty cycle."""
    at_full_load: PerMillion | None
    """The same with every machine at the model's maximum in the hours that are worked."""
    apis: tuple[ApiComparison, ...]
    """Cheapest first."""

    @property
    def usd_per_hour(self) -> float:
        """Dollars an hour of the items with a known price."""
        return self.bill.usd_per_hour_known

    @property
    def at_least(self) -> bool:
        """Whether items without a dated price make every amount a lower bound."""
        return bool(self.bill.unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One limit of the question, and what the plan does about it."""

    name: Literal["TTFT p99", "TPOT"]
    limit_ms: float
    expected_ms: float
    high_ms: float
    """The end of the interval that counts."""

    @property
    def holds(self) -> bool:
        """Whether even the high end is within the limit."""
        return self.high_ms <= self.limit_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """A batch from the first API call to nothing."""

    documents: int
    input_tokens: float
    output_tokens: float
    """Of all documents together."""
    in_flight: float
    """Documents that are worked on at once."""
    start_hours: float
    """Until the fleet answers, likely."""
    work_hours: float
    """At the question's share of the model's maximum: the margin that the deadline has."""
    work_low_hours: float
    """At the high end of the maximum."""
    work_high_hours: float
    """At its low end, where that is slower than planned for."""
    deadline_hours: float | None
    usd: float | None
    """Nodes from when they are asked for until the last answer, everything else from the beginning; None where the nodes'
    price is unknown."""
    usd_per_million: PerMillion | None
    usd_per_hour_after: float
    """What goes on costing at 0 replicas, known prices only; nothing of it after a destroy but what is kept."""

    @property
    def total_hours(self) -> float:
        """From nothing to the last answer."""
        return self.start_hours + self.work_hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A fleet for a goal."""

    question: PlanQuestion
    nodes: int
    """Nodes that the goal needs."""
    spares: int
    """Machines beyond them, for those that go."""
    spares_why: str
    deployment: Deployment
    """The needed nodes; the spares are not in it."""
    in_flight_per_node: float
    """Requests in flight with which a node gives most: full load."""
    performance: Performance
    """At the goal's load, on the needed nodes alone; for a batch at their maximum."""
    maximum: Performance
    """The most that those nodes give by the model, with as many requests in flight as that takes."""
    money: Money
    sizing: Sizing
    """For nodes and spares."""
    time_to_serve: TimeToServe
    """From what the question starts from to the first answer."""
    restart: TimeToServe
    """One machine anew, cluster and weights being there: after a loss, or from 0 replicas."""
    published: Match
    """The published row nearest to the stack as it would be written."""
    verdicts: tuple[Verdict, ...]
    batch: BatchRun | None
    remarks: tuple[str, ...]
    """What a reader should know before he trusts or buys it, the gravest first."""

    @property
    def machines(self) -> int:
        """Nodes that are paid for: needed and spare."""
        return self.nodes + self.spares

    @property
    def gpus(self) -> int:
        """GPUs that are paid for."""
        return self.machines * self.deployment.gpus_per_node

    @property
    def utilisation(self) -> float:
        """The plan's load as a share of the full load of its needed nodes: users of users, else requests of requests. Above 1 where
        users are more than a node gives most with.

        Not requests where users are given: in large fleets contention takes as many as the last users bring.
        """
        now, full = self.performance, self.maximum
        if isinstance(self.question.goal, Users | Batch):
            return now.in_flight.value / full.in_flight.value
        return now.requests_per_s.value / full.requests_per_s.value

    @property
    def kilowatts(self) -> float | None:
        """GPUs of the needed nodes at the plan's load, nothing else of the machines; None where nobody measured their power."""
        watts = self.performance.watts_per_gpu
        return None if watts is None else watts.value * self.nodes * self.deployment.gpus_per_node / 1000

    @property
    def label(self) -> str:
        """How sure its throughput is, as every report says it: "estimated x/÷ 2"."""
        return self.maximum.total_tokens_per_s.label if self.deployment_is_estimated else self.basis

    @property
    def deployment_is_estimated(self) -> bool:
        """Whether it is not the article's model on the article's GPU."""
        return self.basis in ("calibrated", "estimated", "upper bound")

    @property
    def basis(self) -> Basis:
        """How sure: fitted, predicted or extrapolated."""
        return self.performance.tpot_ms.basis

    @property
    def reasons(self) -> tuple[str, ...]:
        """In what the plan leaves what was measured."""
        return self.performance.tpot_ms.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The same question with another way to buy nodes or to reach them."""

    capacity: Capacity
    routing: Routing
    plan: Plan | None
    why_not: str | None
    """Why there is no plan; None where there is one."""
