"""Invert the model: the fewest nodes that reach a goal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from facts.user_error import UserError
from facts.workloads import Workload
from fleet.plan.asked import DEFAULT_HEADROOM
from fleet.plan.model.deployment import Deployment, OfferedLoad
from fleet.plan.model.estimates import Estimate
from fleet.plan.model.fleet_rate import best_in_flight, fleet_load, most_in_flight_per_node
from fleet.plan.model.gpu_memory import MemoryBudget, budget
from fleet.plan.model.performance import Performance, check_context, estimate
from fleet.plan.model.roofline import planned
from fleet.plan.model.step_time import step_costs

DEFAULT_LOAD_SHARE = 1 - DEFAULT_HEADROOM
# Bounds the search.
MOST_NODES = 4_096
_HALVINGS = 11
_USER_HALVINGS = 40


class ImpossibleGoalError(UserError, ValueError):
    """No number of nodes reaches the goal. The message gives the reason and the nearest possible goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Load and latency to reach. Exactly one of the three amounts; else ValueError."""

    total_tokens_per_s: float | None = None
    """Input and output tokens."""
    requests_per_s: float | None = None
    in_flight: float | None = None
    """Closed-loop users: each waits for a response before the next request."""
    think_seconds: float = 0.0
    """Between a user's response and the next request."""
    ttft_p99_ms: float | None = None
    """Limit on the planned end of the estimate."""
    tpot_ms: float | None = None
    """Limit on the planned end of the estimate."""
    load_share: float = DEFAULT_LOAD_SHARE
    """Share of full load that the goal may use."""

    def __post_init__(self) -> None:
        amounts = (self.total_tokens_per_s, self.requests_per_s, self.in_flight)
        if sum(amount is not None for amount in amounts) != 1:
            raise ValueError("give one of total_tokens_per_s, requests_per_s and in_flight")
        limits = (self.ttft_p99_ms, self.tpot_ms)
        if any(amount is not None and amount <= 0 for amount in (*amounts, *limits)):
            raise ValueError("a goal must be above 0")
        if not 0 < self.load_share <= 1:
            raise ValueError(f"load_share must be above 0 and at most 1, got {self.load_share}")

    def rate(self, workload: Workload) -> float | None:
        """The goal in requests/s; None for users."""
        if self.total_tokens_per_s is not None:
            return self.total_tokens_per_s / workload.tokens_per_request
        return self.requests_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The fewest nodes for a goal."""

    deployment: Deployment
    in_flight_per_node: float
    """Requests in flight per node at full load, the highest throughput."""
    most_in_flight_per_node: float
    """Most requests in flight per node within memory and the limits. Above full load where throughput peaks earlier:
    steps exceed captured CUDA graphs, or API servers saturate."""

    @property
    def nodes(self) -> int:
        """Nodes of the fleet."""
        return self.deployment.nodes


def nodes_for(deployment: Deployment, workload: Workload, goal: Goal) -> Sizing:
    """Resize `deployment` to the fewest nodes that reach the goal. Raises ImpossibleGoalError, and what `estimate` raises."""
    check_context(deployment, workload)
    room = budget(deployment, workload)
    most = _most_in_flight_per_node(deployment, workload, room, goal)
    per_node = best_in_flight(deployment, workload, planned(deployment), room, most)
    rate = goal.rate(workload)
    if rate is None:
        assert goal.in_flight is not None
        nodes = _fewest(
            goal.in_flight / goal.load_share,
            lambda count: (
                count * most + _thinking(deployment.with_nodes(count), workload, room, most, goal.think_seconds)
            ),
            deployment,
            "users",
        )
    else:
        nodes = _fewest(
            rate / goal.load_share,
            lambda count: _rate(deployment.with_nodes(count), workload, room, per_node),
            deployment,
            "rate",
        )
    return Sizing(deployment=deployment.with_nodes(nodes), in_flight_per_node=per_node, most_in_flight_per_node=most)


def users_in_flight(deployment: Deployment, workload: Workload, users: float, think_seconds: float) -> float:
    """Requests in flight, while the other users think."""
    if not think_seconds:
        return users
    room = budget(deployment, workload)
    low, high = 0.0, users
    for _ in range(_USER_HALVINGS):
        middle = (low + high) / 2
        if middle + _thinking(deployment, workload, room, middle / deployment.nodes, think_seconds) < users:
            low = middle
        else:
            high = middle
    return high


def _thinking(
    deployment: Deployment, workload: Workload, room: MemoryBudget, per_node: float, think_seconds: float
) -> float:
    """Users who think at that load, by Little's law."""
    return think_seconds * _rate(deployment, workload, room, per_node) if think_seconds else 0.0


def _fewest(wanted: float, ability: Callable[[int], float], deployment: Deployment, what: str) -> int:
    """The fewest nodes whose capacity reaches `wanted`, by bisection."""
    fewest = 2 if deployment.routing == "inference-gateway" else 1
    most = fewest
    while ability(most) < wanted:
        if most >= MOST_NODES:
            raise ImpossibleGoalError(
                f"{wanted:,.0f} ({what}, headroom included) needs more than {MOST_NODES:,} nodes in one fleet, which reach "
                f"{ability(MOST_NODES):,.0f} because contention grows with load; plan several fleets"
            )
        most = min(MOST_NODES, most * 2)
    low = max(fewest, most // 2)
    while low < most:
        middle = (low + most) // 2
        if ability(middle) < wanted:
            low = middle + 1
        else:
            most = middle
    return most


def _rate(deployment: Deployment, workload: Workload, room: MemoryBudget, per_node: float) -> float:
    offered = OfferedLoad(in_flight=per_node * deployment.nodes)
    return fleet_load(deployment, workload, offered, planned(deployment), room).requests_per_s


def _most_in_flight_per_node(deployment: Deployment, workload: Workload, room: MemoryBudget, goal: Goal) -> float:
    """Most requests in flight per node: without a queue, within the limits."""
    costs = step_costs(deployment, workload, planned(deployment), room)
    most = most_in_flight_per_node(deployment, costs)
    for name, limit, of in (
        ("TTFT p99", goal.ttft_p99_ms, lambda performance: performance.ttft_p99_ms),
        ("TPOT", goal.tpot_ms, lambda performance: performance.tpot_ms),
    ):
        if limit is not None:
            most = _within(deployment, workload, most, name, limit, of)
    return most


def _within(
    deployment: Deployment,
    workload: Workload,
    most: float,
    name: str,
    limit_ms: float,
    of: Callable[[Performance], Estimate],
) -> float:
    """Most requests in flight per node with that latency within the limit."""
    one = deployment.with_nodes(2 if deployment.routing == "inference-gateway" else 1)

    def high_ms(per_node: float) -> float:
        return of(estimate(one, workload, OfferedLoad(in_flight=per_node * one.nodes))).planned_end

    if high_ms(most) <= limit_ms:
        return most
    least = float(deployment.engine.data_parallel)
    if high_ms(least) > limit_ms:
        raise ImpossibleGoalError(
            f"{name} of {limit_ms:,.0f} ms: even one request per engine may take {high_ms(least):,.0f} ms"
        )
    low, high = least, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if high_ms(middle) <= limit_ms:
            low = middle
        else:
            high = middle
    return low
