"""Routers for a plan's load: what stands between clients and servers with `endpoint.kind: leastRequest` or `prefixAware`."""

from __future__ import annotations

from facts import routers
from facts.routers import RouterKind, RouterSize
from fleet.plan.plan import Plan

BYTES_PER_TOKEN = 4
"""Of a prompt. Assumed: English text; other languages and code differ by half."""
_KIB = 1024


def routers_for(plan: Plan, kind: RouterKind) -> RouterSize | None:
    """Routers that carry the required nodes at full load with one router away, if every response is streamed.

    None where the measured costs add up to more than the largest number of the largest routers.
    """
    full = plan.maximum
    return routers.size(
        kind,
        servers=plan.machines,
        requests_per_s=full.requests_per_s.value,
        prompt_kib=plan.question.workload.input_tokens.mean * BYTES_PER_TOKEN / _KIB,
        chunks_per_s=full.chunks_per_s.value,
        in_flight=full.in_flight.value,
    )
