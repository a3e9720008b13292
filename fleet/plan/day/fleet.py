"""Capacity, start-up time, price and failures of a simulated fleet."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from facts.workloads import Workload
from fleet.plan.model.deployment import Deployment, OfferedLoad
from fleet.plan.model.performance import estimate

METRIC_LAG_SECONDS: Final = 120
"""Assumed: scraped every 15 to 30 s, readable in Cloud Monitoring one to two minutes later."""
PATIENCE_SECONDS: Final = 60.0
"""Assumed: how long a client waits beyond full load before giving up."""
IDLE_SECONDS: Final = 600
"""Assumed: how long an empty node is billed before Autopilot removes it."""
_STEPS: Final = 20
_BELOW_FULL: Final = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time span, in seconds of the simulation."""

    begin: int
    end: int

    def __contains__(self, second: float) -> bool:
        return self.begin <= second < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Requests in flight on one node by rate, up to the planner's full load (Little's law)."""

    full_requests_per_s: float
    curve: tuple[float, ...]
    """Requests in flight at equal steps of the rate, from 0 to full load."""

    def in_flight(self, requests_per_s: float) -> float:
        """Requests in flight on a node at that rate."""
        at = min(1.0, requests_per_s / self.full_requests_per_s) * (len(self.curve) - 1)
        left = min(int(at), len(self.curve) - 2)
        return self.curve[left] + (at - left) * (self.curve[left + 1] - self.curve[left])

    def target(self, growth: float) -> int:
        """Requests in flight that leave room for the rate to grow by this factor."""
        return max(1, int(self.in_flight(self.full_requests_per_s / growth)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A fleet's capacity, cost and injected failures."""

    serving: Serving
    start_seconds: float
    """From requesting a server to its first response: node and engine."""
    usd_per_node_hour: float | None
    usd_per_hour_around: float
    """Everything else in the bill."""
    paid_nodes: int | None = None
    """Committed or reserved nodes, one for each server, billed whether they run or not. None: running nodes are billed."""
    reserved_nodes: int = 0
    """Nodes, one for each server, of a ladder's reservation, billed whether they run or not, beside those that run elsewhere."""
    stock_outs: tuple[Span, ...] = ()
    """No new nodes; pending ones start when the span ends."""
    blind: tuple[Span, ...] = ()
    """The metric query fails."""
    losses: tuple[int, ...] = ()
    """Seconds at which one node is lost."""


def serving(deployment: Deployment, workload: Workload, full_requests_per_s: float) -> Serving:
    """Sample the planner's model at shares of full load."""
    in_flight = [0.0]
    for step in range(1, _STEPS + 1):
        offered = OfferedLoad(requests_per_s=_BELOW_FULL * full_requests_per_s * step / _STEPS)
        in_flight.append(estimate(deployment, workload, offered).in_flight.value / deployment.nodes)
    # Keep the curve monotonic: a fuller node must not appear emptier.
    return Serving(full_requests_per_s=full_requests_per_s / deployment.nodes, curve=tuple(accumulate(in_flight, max)))
