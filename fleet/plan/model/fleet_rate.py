"""Fleet throughput from one engine's: engines per node, contention between nodes, gateway, API servers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from facts.workloads import Workload
from fleet.plan.model.calibration import Parameters
from fleet.plan.model.deployment import (
    MEASURED_IN_FLIGHT_PER_GPU,
    MEASURED_IN_FLIGHT_PER_NODE,
    Deployment,
    OfferedLoad,
)
from fleet.plan.model.gpu_memory import MemoryBudget
from fleet.plan.model.roofline import is_articles
from fleet.plan.model.step_time import EngineLoad, StepCosts, Wait, closed_loop, open_loop, step_costs
from fleet.plan.search import lowest

# Measured: vLLM 0.20.2, four H200, 2026-11-22, the article's mix of two input tokens to one output token: one API server process saturated
# a core at 109,706 total tok/s, with 195 of 1,600 requests in the engines and 8 s to first token. Four reached 142,068 and 0.2 s.
API_SERVER_TOKENS_PER_S = 110_000
_EXPERT_ROUNDS = 8
_SAME_RATE = 1e-9
# Node count of the gateway's fit.
_GATEWAY_FITTED_NODES = 2


class OverloadedError(ValueError):
    """The offered rate exceeds the fleet's capacity, which the message gives."""

    def __init__(self, requests_per_s: float, capacity_per_s: float, nodes: int) -> None:
        self.capacity_per_s = capacity_per_s
        where = "1 node handles" if nodes == 1 else f"{nodes} nodes handle"
        super().__init__(f"{where} at most {capacity_per_s:,.1f} of these requests/s, got {requests_per_s:,.1f}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLoad:
    """A fleet in steady state."""

    requests_per_s: float
    in_flight: float
    engine: EngineLoad
    """One of its engines."""
    gateway_s: float
    """Time that the gateway adds to a request. Not measured: whether before the first token or between tokens."""
    costs: StepCosts
    front_end_s: float = 0.0
    """Queueing time before the node's API servers, if they are the bottleneck."""

    @property
    def seconds_per_request(self) -> float:
        """Mean time from sending to the last token."""
        return self.engine.seconds_per_request + self.gateway_s + self.front_end_s


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReading:
    """One hypothesis on how the gateway's cost depends on the node count; all fit two nodes."""

    constant_share: float
    """Part of the cost that is independent of the node count. The rest grows as 1 - 1/nodes, the odds of a wrong node."""

    def added_share(self, parameters: Parameters, nodes: int) -> float:
        """Time added to a request, as a share of its time without a gateway."""
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
    """Solve the fleet at that load. Raises OverloadedError if the offered rate exceeds its capacity."""
    if offered.in_flight is not None:
        return _closed(deployment, workload, offered.in_flight, parameters, budget, gateway)
    assert offered.requests_per_s is not None
    return _open(deployment, workload, offered.requests_per_s, parameters, budget, gateway)


def most_in_flight_per_node(deployment: Deployment, costs: StepCosts) -> float:
    """Most requests in flight planned per node: what its engines run at once, by cache and options.

    Of the article's pair at most the article's: at four times as many its throughput fell.
    """
    held = costs.running_limit * deployment.engine.data_parallel
    return min(held, MEASURED_IN_FLIGHT_PER_GPU * deployment.gpus_per_node) if is_articles(deployment) else held


def best_in_flight(
    deployment: Deployment, workload: Workload, parameters: Parameters, budget: MemoryBudget, most: float
) -> float:
    """The fewest requests in flight per node, up to `most`, that give the highest throughput.

    Fewer than `most` where larger steps exceed the captured CUDA graphs, or API servers saturate.
    """
    one = deployment.with_nodes(2 if deployment.routing == "inference-gateway" else 1)
    return _best_in_flight(one, workload, parameters, budget, most)


@lru_cache(maxsize=1_024)
def _best_in_flight(
    one: Deployment, workload: Workload, parameters: Parameters, budget: MemoryBudget, most: float
) -> float:
    least = one.engine.data_parallel

    def rate(per_node: float) -> float:
        return _closed(one, workload, per_node * one.nodes, parameters, budget, GATEWAY_HALFWAY).engine.requests_per_s

    def uncaptured(per_node: float) -> bool:
        engine = per_node / least
        costs = step_costs(one, workload, parameters, budget, engine)
        return not closed_loop(costs, engine, _wait(parameters, one, per_node)).captured

    best = most
    if uncaptured(most):
        beyond = lowest(uncaptured, least, int(most)) or int(most) + 1
        best = max((most, *([beyond - 1] if beyond > least else [])), key=rate)
    enough = (1 - _SAME_RATE) * rate(best)
    return min(best, float(lowest(lambda per_node: rate(per_node) >= enough, least, int(best)) or best))


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
    engine = closed_loop(costs, in_flight / engines, _wait(parameters, deployment, in_flight / deployment.nodes))
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
    held = most_in_flight_per_node(deployment, step_costs(deployment, workload, parameters, budget))
    per_node = best_in_flight(deployment, workload, parameters, budget, held)
    most = _closed(deployment, workload, deployment.nodes * per_node, parameters, budget, gateway)
    share = requests_per_s / most.requests_per_s
    if share > 1 + 1e-9:
        raise OverloadedError(requests_per_s, most.requests_per_s, deployment.nodes)
    engines = deployment.nodes * deployment.engine.data_parallel
    costs = most.costs
    engine = _at_rate(deployment, costs, requests_per_s / engines, parameters)
    for _ in range(_EXPERT_ROUNDS if deployment.model.experts else 0):
        # Iterate: fewer sequences activate fewer experts, which shortens the step and reduces the sequences further.
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
    """Highest rate of one node's API servers."""
    return deployment.engine.http_processes * API_SERVER_TOKENS_PER_S / workload.tokens_per_request


def _at_rate(deployment: Deployment, costs: StepCosts, requests_per_s: float, parameters: Parameters) -> EngineLoad:
    per_node = MEASURED_IN_FLIGHT_PER_GPU * deployment.gpus_per_node
    wait = _wait(parameters, deployment, per_node)
    return open_loop(costs, requests_per_s, wait, per_node / deployment.engine.data_parallel)


def _wait(parameters: Parameters, deployment: Deployment, in_flight_per_node: float) -> Wait:
    """The wait before the engine. Assumed: in proportion to the requests in flight per GPU, up to the article's."""
    load = in_flight_per_node / deployment.gpus_per_node / MEASURED_IN_FLIGHT_PER_GPU
    return Wait(seconds=parameters.slowdown * parameters.wait_s, share=parameters.wait_share).times(load)


def _contention(parameters: Parameters, in_flight: float) -> float:
    """Loss of throughput with total load (clients, network, Service). Published TPOT does not grow with it."""
    return 1 + parameters.contention_per_node * max(0.0, in_flight / MEASURED_IN_FLIGHT_PER_NODE - 1)
