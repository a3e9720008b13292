"""What GPU nodes cost, as far as their selectors tell: list prices of A4 nodes."""

from __future__ import annotations

from typing import Final

from facts import ledger
from pods import GKE, Pod, pods
from rule import Resource

SPOT_USD_PER_NODE_HOUR: Final[float] = ledger.value("prices.capacity.spot.usd")
COMMITTED_USD_PER_NODE_HOUR: Final[float] = ledger.value("prices.capacity.cud-1y.usd")


def usd_per_node_hour(pod: Pod) -> float | None:
    """List price of the A4 nodes these pods select; None where no price is published for that way to get them.

    A reservation is priced as under a one-year commitment, the only dated price of a reserved A4.
    """
    if not pod.is_on_b200:
        return None
    if is_spot(pod):
        return SPOT_USD_PER_NODE_HOUR
    return COMMITTED_USD_PER_NODE_HOUR if pod.selector(f"{GKE}/reservation-name") else None


def is_spot(pod: Pod) -> bool:
    """Whether these pods ask for Spot nodes."""
    return pod.selector(f"{GKE}/gke-spot") == "true" or pod.selector(f"{GKE}/gke-provisioning") == "spot"


def at_stake(resource: Resource) -> str:
    """Money that this object's GPU nodes cost, in words; empty where it has none."""
    parts = [words(pod, pod.gpu_nodes) for pod in pods(resource) if pod.gpus and pod.gpu_nodes]
    return "; ".join(parts)


def words(pod: Pod, nodes: int) -> str:
    """What `nodes` nodes for such pods cost an hour."""
    price = usd_per_node_hour(pod)
    plural = "" if nodes == 1 else "s"
    if price is None:
        kind = "A4 node" if pod.is_on_b200 else "GPU node"
        return f"{nodes} {kind}{plural}, no published price"
    way = "Spot" if is_spot(pod) else "reserved, 1-year commitment"
    return f"${price * nodes:,.2f} an hour ({nodes} A4 node{plural}, {way}, list price)"
