"""Routers for a plan's load: what stands between clients and servers with `endpoint.kind: leastRequest`."""

from __future__ import annotations

from facts import routers
from facts.routers import RouterSize
from fleet.plan.model.performance import Performance
from fleet.plan.plan import Plan
from fleet.plan.question.goals import PlanQuestion

BYTES_PER_TOKEN = 4
"""Of a prompt. Assumed: English text; other languages and code differ by half."""
_KIB = 1024


def routers_for(plan: Plan) -> RouterSize | None:
    """Routers that carry the required nodes at full load with one router away, if every response is streamed.

    None where the measured costs add up to more than the largest number of the largest routers.
    """
    return size_routers(plan.question, plan.machines, plan.nodes, plan.maximum)


def size_routers(question: PlanQuestion, machines: int, nodes: int, full: Performance) -> RouterSize | None:
    """The same before there is a plan. `full`: the required nodes at full load. A written stack declares as much for each spare, too, and
    routers have room for their connections.
    """
    requests_per_s, after_first = full.requests_per_s.value, max(0.0, question.workload.output_tokens.mean - 1)
    return routers.size(
        requests_per_s=requests_per_s,
        prompt_kib=question.workload.input_tokens.mean * BYTES_PER_TOKEN / _KIB,
        chunks_per_s=requests_per_s * (1 + after_first / full.tokens_per_chunk),
        in_flight=full.in_flight.value * machines / nodes,
    )
