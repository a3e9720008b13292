"""Linear baseline to compare the model with: each further node adds what the second one added."""

from __future__ import annotations

from facts import figures
from facts.workloads import Workload
from fleet.plan.model.deployment import Deployment, OfferedLoad


def total_tokens_per_s(deployment: Deployment) -> float:
    """Total tokens/s by a line through the fitted rows of one and two nodes; behind the gateway, through the one row and 0."""
    if deployment.routing == "inference-gateway":
        return _published("gateway.nodes-2") / 2 * deployment.nodes
    one, two = _published("cluster_ip.nodes-1"), _published("cluster_ip.nodes-2")
    return one + (two - one) * (deployment.nodes - 1)


def requests_per_s(deployment: Deployment, workload: Workload) -> float:
    """Requests/s by the same line."""
    return total_tokens_per_s(deployment) / workload.tokens_per_request


def tpot_ms() -> float:
    """Mean of the fitted rows at any node count."""
    rows = ("cluster_ip.nodes-1", "cluster_ip.nodes-2")
    return sum(figures.published(row).tpot_median_ms or 0.0 for row in rows) / len(rows)


def ttft_ms() -> float:
    """Mean of the fitted rows at any node count."""
    rows = ("cluster_ip.nodes-1", "cluster_ip.nodes-2")
    return sum(figures.published(row).ttft_median_ms or 0.0 for row in rows) / len(rows)


def running_per_engine(deployment: Deployment, offered: OfferedLoad) -> float:
    """Requests in flight divided by engines."""
    assert offered.in_flight is not None
    return offered.in_flight / deployment.nodes / deployment.engine.data_parallel


def _published(row: str) -> float:
    total = figures.published(row).total_tokens_per_s
    assert total is not None
    return float(total)
