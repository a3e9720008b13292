"""Fleets to watch: one that has everything, one that has as little as can be, and what lies between."""

from __future__ import annotations

from dataclasses import replace

from facts.pickers import LLM_D
from facts.signals.catalogue import Watched

EVERYTHING = Watched(
    server="qwen35-server",
    namespace="vllm-spot",
    stack="spot",
    project="fleet-tests",
    engines_per_pod=8,
    max_replicas=12,
    speculative=True,
    prefix_caching=True,
    autoscaler="keda-hpa-qwen35-server",
    spending="pause",
    priced_by_guard=True,
    batch=True,
    spot=True,
    routers=True,
    gateway=True,
    gateway_pool="qwen35-pool",
    cluster="vllm-inference-cluster-spot",
    zones=("europe-west4-b",),
    node_usd_per_hour=34.07,
    planned_usd_per_million_output=0.31,
)
WARNED = replace(
    EVERYTHING, spending="warn", canary=True, canary_has_users=True, gateway_is_external=True, picker=LLM_D
)
"""The same with what excludes something of it."""
LITTLE = Watched(server="chat", namespace="chat", stack="chat")
FLEETS = {
    "everything": EVERYTHING,
    "warned": WARNED,
    "little": LITTLE,
    "two engines": replace(LITTLE, engines_per_pod=2, ttft_seconds=1, tpot_seconds=0.05, objective=0.999),
    "without a price": replace(
        EVERYTHING, node_usd_per_hour=None, priced_by_guard=False, planned_usd_per_million_output=None
    ),
    "without a published figure": replace(EVERYTHING, planned_usd_per_million_output=None),
    "a ladder with a reservation": replace(
        EVERYTHING, ladder=True, flex_start=True, reserved=True, reserved_usd_per_hour=177.86
    ),
    "a ladder that no guard counts": replace(
        EVERYTHING, ladder=True, reserved_usd_per_hour=177.86, spending=None, priced_by_guard=False
    ),
    "newest vLLM": replace(EVERYTHING, release=(0, 33, 0)),
    "prefill apart": replace(EVERYTHING, release=(0, 33, 0), prefill_engines=4),
    "a pair": replace(LITTLE, release=(0, 33, 0), engines_per_pod=2, prefill_engines=1),
    "only batches": replace(EVERYTHING, only_batches=True),
    "somebody else scales": replace(EVERYTHING, max_replicas=None, autoscaler=None),
}
