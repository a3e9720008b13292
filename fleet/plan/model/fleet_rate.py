"""From one engine to a fleet: engines on a node, nodes behind a Service, and the Inference Gateway in between."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from facts.workloads import Workload
from fleet.plan.model.calibration import Parameters
from fleet.plan.model.deployment import MEASURED_IN_FLIGHT_PER_NODE, Deployment, OfferedLoad
from fleet.plan.model.gpu_memory import MemoryBudget
from fleet.plan.model.step_time import EngineLoad, StepCosts, closed_loop, open_loop, step_costs, wait_s

# Measured: vLLM 0.20.2, four H200, 2026-11-22, the article's mix of two input tokens to one output token: one API server process used a
# whole core at 109,706 total tok/s, with 195 of 1,600 requests in the engines and 8 s to the first token. Four went to 142,068 and 0.2 s.
API_SERVER_TOKENS_PER_S = 110_000
_EXPERT_ROUNDS = 8
_SAME_RATE = 1e-9
# Nodes that the gateway's share was fitted at.
_GATEWAY_FITTED_NODES = 2


class OverloadedError(ValueError):
    """More requests a second than the fleet can answer. The message says how many it can."""

    def __init__(self, requests_per_s: float, capacity_per_s: float, nodes: int) -> None:
        self.capacity_per_s = capacity_per_s
        where = "1 node answers" if nodes == 1 else f"{nodes} nodes answer"
        super().__init__(f"{where} at most {capacity_per_s:,.1f} of these requests a second, got {requests_per_s:,.1f}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLoad:
    """A fleet in steady state."""

    requests_per_s: float
    in_flight: float
    engine: EngineLoad
    """One of its engines."""
    gateway_s: float
    """Time the gateway adds to a request; 0 without one. Before the first token or between tokens: nobody measured."""
    costs: StepCosts
    front_end_s: float = 0.0
    """Time that a request queues before the API servers of its node, where they carry less than its engines."""

    @property
    def seconds_per_request(self) -> float:
        """Mean time from sending to the last token."""
        return self.engine.seconds_per_request + self.gateway_s + self.front_end_s


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReading:
    """One way in which the gateway's cost may depend on the number of nodes; all fit two nodes."""

    constant_share: float
    """Part of the cost that is the same at any number of nodes. The rest grows as 1 - 1/nodes: it takes a second node
    to send a request to the wrong one."""

    def added_share(self, parameters: Parameters, nodes: int) -> float:
        """Time added to a request, as a share of the time it takes without a gateway."""
        growing = (1 - 1 / nodes) / (1 - 1 / _GATEWAY_FITTED_NODES)
        return parameters.gateway_share * (self.constant_share + (1 - self.constant_share) * growing)


GATEWAY_CONSTANT = GatewayReading(constant_share=1)
GATEWAY_GROWING = GatewayReading(constant_share=0)
# Assumed: halfway between the two. The article says "about 35 % at all node counts" and measures 31, 35 and 37.
GATEWAY_HALFWAY = GatewayReading(constant_share=0.5)


def fleet_load(
    deployment: Deployment,
    workload: Workload,
    offered: OfferedLoad,
    parameters: Parameters,
    budget: MemoryBudget,
    gateway: GatewayReading = GATEWAY_HALFWAY,
) -> FleetLoad:
    """The fleet at that load. Raises OverloadedError where it is offered more requests a second than it can answer."""
    if offered.in_flight is not None:
        return _closed(deployment, workload, offered.in_flight, parameters, budget, gateway)
    assert offered.requests_per_s is not None
    return _open(deployment, workload, offered.requests_per_s, parameters, budget, gateway)


def best_in_flight(
    deployment: Deployment, workload: Workload, parameters: Parameters, budget: MemoryBudget, most: float
) -> float:
    """Requests in flight on a node, up to `most`, with which it answers most a second, and no more of them than that takes.

    Not always `most`: a step with more tokens than captured CUDA graphs reach may cost more than its sequences bring, and what
    queues before full API servers brings nothing.
    """
    one = deployment.with_nodes(2 if deployment.routing == "inference-gateway" else 1)
    counts = range(one.engine.data_parallel, int(most) + 1)

    def rate(per_node: float) -> float:
        return _closed(one, workload, per_node * one.nodes, parameters, budget, GATEWAY_HALFWAY).engine.requests_per_s

    def uncaptured(per_node: float) -> bool:
        engine = per_node / one.engine.data_parallel
        costs = step_costs(one, workload, parameters, budget, engine)
        return not closed_loop(costs, engine, wait_s(parameters, per_node)).captured

    best = most
    if uncaptured(most):
        captured = counts[: bisect_left(counts, True, key=uncaptured)]
        best = max((most, *captured[-1:]), key=rate)
    enough = (1 - _SAME_RATE) * rate(best)
    return min(best, float(counts[0] + bisect_left(counts, enough, hi=max(0, int(best) - counts[0] + 1), key=rate)))


def _closed(
    deployment: Deployment,
    workload: Workload,
    in_flight: float,
    parameters: Parameters,
    budget: MemoryBudget,
    gateway: GatewayReading,
) -> FleetLoad:
    engines = deployment.nodes * deployment.engine.data_parallel
    costs = step_costs(deployment, workload, parameters, budget, in_flight / engines)
    engine = closed_loop(costs, in_flight / engines, wait_s(parameters, in_flight / deployment.nodes))
    gateway_s = front_end_s = 0.0
    if deployment.routing == "inference-gateway":
        rate = engine.requests_per_s / (1 + gateway.added_share(parameters, deployment.nodes))
        seconds = engine.in_flight / rate
        engine = _at_rate(deployment, costs, rate, parameters)
        gateway_s = max(0.0, seconds - engine.seconds_per_request)
    most = _front_end_requests_per_s(deployment, workload) / deployment.engine.data_parallel
    if engine.requests_per_s > most:
        seconds = in_flight / engines / most
        engine = _at_rate(deployment, costs, most, parameters)
        front_end_s = max(0.0, seconds - engine.seconds_per_request - gateway_s)
    return FleetLoad(
        requests_per_s=engines * engine.requests_per_s / _contention(parameters, in_flight),
        in_flight=in_flight,
        engine=engine,
        gateway_s=gateway_s,
        front_end_s=front_end_s,
        costs=costs,
    )


def _open(
    deployment: Deployment,
    workload: Workload,
    requests_per_s: float,
    parameters: Parameters,
    budget: MemoryBudget,
    gateway: GatewayReading,
) -> FleetLoad:
    # Up to the highest load that was measured: at four times as many requests in flight the article's throughput fell.
    per_node = best_in_flight(deployment, workload, parameters, budget, deployment.most_in_flight_per_node)
    most = _closed(deployment, workload, deployment.nodes * per_node, parameters, budget, gateway)
    share = requests_per_s / most.requests_per_s
    if share > 1 + 1e-9:
        raise OverloadedError(requests_per_s, most.requests_per_s, deployment.nodes)
    engines = deployment.nodes * deployment.engine.data_parallel
    costs = most.costs
    engine = _at_rate(deployment, costs, requests_per_s / engines, parameters)
    for _ in range(_EXPERT_ROUNDS if deployment.model.experts else 0):
        # Fewer sequences choose fewer experts, whose weights then take less time to read, so that fewer are in a step.
        costs = step_costs(deployment, workload, parameters, budget, engine.running)
        engine = _at_rate(deployment, costs, requests_per_s / engines, parameters)
    gateway_s = most.gateway_s * share
    return FleetLoad(
        requests_per_s=requests_per_s,
        in_flight=requests_per_s * (engine.seconds_per_request + gateway_s),
        engine=engine,
        gateway_s=gateway_s,
        costs=costs,
    )


def _front_end_requests_per_s(deployment: Deployment, workload: Workload) -> float:
    """The most that one node's API servers take and answer."""
    return deployment.engine.http_processes * API_SERVER_TOKENS_PER_S / workload.tokens_per_request


def _at_rate(deployment: Deployment, costs: StepCosts, requests_per_s: float, parameters: Parameters) -> EngineLoad:
    reference = deployment.most_in_flight_per_node / deployment.engine.data_parallel
    return open_loop(costs, requests_per_s, parameters.wait_s, reference)


def _contention(parameters: Parameters, in_flight: float) -> float:
    """What the nodes' common load costs: clients, network, the Service. Throughput only: published TPOT does not grow."""
    return 1 + parameters.contention_per_node * max(0.0, in_flight / MEASURED_IN_FLIGHT_PER_NODE - 1)
