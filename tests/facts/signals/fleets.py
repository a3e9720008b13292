"""Fleets to watch: one that has everything, one that has as little as can be, and what lies between."""

from __future__ import annotations

from dataclasses import replace

from facts.pickers import LLM_D
from facts.signals.model import Front, Price, Watched

PRICE = Price(per_node=34.07, by_guard=True, planned_per_million=0.31)
EVERYTHING = Watched(
    server="qwen35-server",
    namespace="vllm-spot",
    stack="spot",
    project="fleet-tests",
    engines_per_pod=8,
    speculative=True,
    prefix_caching=True,
    autoscaler="keda-hpa-qwen35-server",
    spending="pause",
    batch=True,
    routers=True,
    gateway=Front(pool="qwen35-pool"),
    cluster="vllm-inference-cluster-spot",
    price=PRICE,
)
WARNED = replace(EVERYTHING, spending="warn", gateway=Front(is_external=True, pool="qwen35-pool", picker=LLM_D))
"""The same with what excludes something of it."""
LITTLE = Watched(server="chat", namespace="chat", stack="chat")
FLEETS = {
    "everything": EVERYTHING,
    "warned": WARNED,
    "little": LITTLE,
    "two engines": replace(LITTLE, engines_per_pod=2, ttft_seconds=1, tpot_seconds=0.05, objective=0.999),
    "without a price": replace(EVERYTHING, price=None),
    "without a published figure": replace(EVERYTHING, price=replace(PRICE, planned_per_million=None)),
    "a ComputeClass with a reservation": replace(
        EVERYTHING, price=replace(PRICE, is_upper_bound=True, reserved=177.86)
    ),
    "a ComputeClass that no guard counts": replace(
        EVERYTHING, spending=None, price=replace(PRICE, is_upper_bound=True, reserved=177.86, by_guard=False)
    ),
    "newest vLLM": replace(EVERYTHING, release=(0, 33, 0)),
    "prefill apart": replace(EVERYTHING, release=(0, 33, 0), prefill_engines=4),
    "a pair": replace(LITTLE, release=(0, 33, 0), engines_per_pod=2, prefill_engines=1),
    "only batches": replace(EVERYTHING, only_batches=True),
    "without an autoscaler": replace(EVERYTHING, autoscaler=None),
}
