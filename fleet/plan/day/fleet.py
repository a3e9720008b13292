"""What a simulated fleet can do and costs: the planner's answer for one node at every load, its start, its price."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from facts.workloads import Workload
from fleet.plan.model.deployment import Deployment, OfferedLoad
from fleet.plan.model.performance import estimate

METRIC_LAG_SECONDS: Final = 120
"""Assumed: a scrape each 15 to 30 s, and one to two minutes until Cloud Monitoring answers with it."""
PATIENCE_SECONDS: Final = 60.0
"""Assumed: how long a request waits beyond full load before its client gives up."""
IDLE_SECONDS: Final = 600
"""Assumed: how long an empty node is paid for before Autopilot removes it."""
_STEPS: Final = 20
_BELOW_FULL: Final = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From one second of the simulation to another."""

    begin: int
    end: int

    def __contains__(self, second: float) -> bool:
        return self.begin <= second < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """One node by Little's law: requests in flight for every rate, up to full load as the planner defines it, limits included."""

    full_requests_per_s: float
    curve: tuple[float, ...]
    """Requests in flight at equal steps of the rate, from none to full load."""

    def in_flight(self, requests_per_s: float) -> float:
        """Requests in flight on a node that answers so many a second."""
        at = min(1.0, requests_per_s / self.full_requests_per_s) * (len(self.curve) - 1)
        left = min(int(at), len(self.curve) - 2)
        return self.curve[left] + (at - left) * (self.curve[left + 1] - self.curve[left])

    def target(self, growth: float) -> int:
        """Requests in flight from which the rate may grow so many times until the node is full."""
        return max(1, int(self.in_flight(self.full_requests_per_s / growth)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What the simulation needs to know of a fleet, and what goes wrong with it."""

    serving: Serving
    start_seconds: float
    """From asking for a server to its first answer: node and engine."""
    usd_per_node_hour: float | None
    usd_per_hour_around: float
    """Everything else of the bill."""
    paid_nodes: int | None = None
    """Nodes of a commitment or reservation, paid for whether they run or not. None: those that run."""
    stock_outs: tuple[Span, ...] = ()
    """No new node comes; what was asked for starts when it ends."""
    blind: tuple[Span, ...] = ()
    """The query fails."""
    losses: tuple[int, ...] = ()
    """Seconds at which one node is taken away."""


def serving(deployment: Deployment, workload: Workload, full_requests_per_s: float) -> Serving:
    """The planner's model at shares of full load, on as many nodes as the deployment has."""
    in_flight = [0.0]
    for step in range(1, _STEPS + 1):
        offered = OfferedLoad(requests_per_s=_BELOW_FULL * full_requests_per_s * step / _STEPS)
        in_flight.append(estimate(deployment, workload, offered).in_flight.value / deployment.nodes)
    # A curve that falls would make a fuller node look emptier.
    return Serving(full_requests_per_s=full_requests_per_s / deployment.nodes, curve=tuple(accumulate(in_flight, max)))
