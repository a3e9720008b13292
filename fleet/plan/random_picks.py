"""What the random picks of a Service cost, as a sentence."""

from __future__ import annotations

from facts.picks import Served, per_connection, per_request

_NO_LOSS = 0.0005
_FEW_WAIT = 0.005


def random_picks(replica: Served, replicas: int, in_flight: float) -> str | None:
    """The cost beside picks by requests in flight; None with one replica. `in_flight`: requests of all replicas."""
    if replicas < 2:
        return None
    mean = in_flight / replicas
    least, most = (limit(replica, replicas, mean) for limit in (per_connection, per_request))
    error = "a quarter" if replicas == 2 else "a tenth"
    cost = (
        "costs no throughput (modeled: less than 0.1 %)"
        if most.loss < _NO_LOSS
        else f"costs {100 * least.loss:.1f} % of the throughput where connections last and {100 * most.loss:.1f} % where each request has "
        f"its own (modeled; {error} of itself more or less)"
    )
    waits = (
        f", and {most.waiting:.0%} of all requests wait for a place in an engine" if most.waiting > _FEW_WAIT else ""
    )
    return (
        f"A Service picks a replica at random for each connection. Beside picks by requests in flight (endpoint.kind: leastRequest) this "
        f"{cost}; one replica in a hundred then has {least.crowded:,.0f} to {most.crowded:,.0f} requests instead of {mean:,.0f}{waits}."
    )
