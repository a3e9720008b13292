"""The settings that a stack's alerts and dashboard depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING

from facts import prices
from facts.capacity import LONG_NOTICE_SECONDS, SPOT_NOTICE_SECONDS
from facts.names import cluster_name
from facts.releases import number_of
from facts.signals.model import Elsewhere, Watched
from facts.time_to_serve import Step, time_to_serve
from settings.derived.replica_start import replica_start
from settings.derived.spending import rates
from settings.sections.capacity import Ladder, Spot, has_flex_start

if TYPE_CHECKING:
    from settings.derived.figures import Figures
    from settings.stack import Settings

SLACK = 1.25
"""Factor of a slow start. Assumed: an alert that fires at every slow start would be disabled."""
TO_PULL = ("flex-start", "gpu-node", "image-pull")
"""Steps of a pod that is Pending."""


def watched(settings: Settings, figures: Figures) -> Watched:
    """The monitored fleet of one stack."""
    engine, capacity = settings.serving.engine, settings.capacity
    promised = settings.monitoring.objectives
    pods_per_node = max(1, settings.machine.gpus // settings.gpus_per_replica)
    counted = rates(settings)
    start = time_to_serve(replica_start(settings)).steps
    node_usd, tokens = figures.bill.nodes.unit_price_usd, figures.output_tokens_per_s
    return Watched(
        server=settings.server.name,
        namespace=settings.namespace,
        stack=settings.stack,
        project=settings.project,
        engines_per_pod=engine.data_parallel_size,
        prefill_engines=0
        if settings.server.shape is None
        else settings.server.shape.prefill_gpus // engine.tensor_parallel_size,
        max_replicas=settings.server.scaling.max if settings.is_scaled else settings.own_replicas,
        autoscaler=_autoscaler(settings),
        spending=None if settings.spending is None else settings.spending.then,
        priced_by_guard=settings.spending is not None
        and settings.monitoring.alerts is not None
        and node_usd is not None
        and not counted.paid_anyway,
        batch=settings.batch.enabled,
        only_batches=settings.scales_by_batch,
        canary=settings.rollout.canary is not None,
        canary_has_users=settings.has_picker and settings.canary_weight > 0,
        release=number_of(engine.version),
        speculative=engine.speculative is not None,
        prefix_caching=settings.serving.caches_prefixes,
        spot=isinstance(capacity, Spot) or (isinstance(capacity, Ladder) and capacity.spot),
        ladder=isinstance(capacity, Ladder),
        flex_start=has_flex_start(capacity),
        reserved=counted.paid_anyway or counted.reserved_first,
        elsewhere=tuple(_elsewhere(settings)) or ("region",),
        # Only a ComputeClass can ask for it.
        notice_seconds=LONG_NOTICE_SECONDS
        if isinstance(capacity, Ladder) and settings.has_long_notice
        else SPOT_NOTICE_SECONDS,
        grace_seconds=settings.placement.grace_seconds,
        downloads=not settings.weights.has_volume,
        measures_on_update=settings.benchmark.enabled and settings.benchmark.run_on_update,
        routers=settings.has_router,
        gateway=settings.gateway.enabled,
        gateway_pool=settings.gateway.pool_name if settings.has_picker else None,
        picker=settings.gateway.epp.release,
        gateway_is_external=settings.gateway.is_public,
        cluster=settings.cluster.name or cluster_name(settings.stack) if settings.owns_platform else None,
        zones=settings.zones,
        ttft_seconds=promised.ttft_seconds,
        tpot_seconds=promised.tpot_ms / 1000,
        objective=promised.objective,
        node_seconds=_slow(step for step in start if step.id in TO_PULL),
        start_seconds=_slow(start),
        interval_seconds=settings.monitoring.interval_seconds,
        node_usd_per_hour=node_usd,
        reserved_usd_per_hour=counted.reserved_nodes * counted.per_reserved_node,
        pods_per_node=pods_per_node,
        planned_usd_per_million_output=None
        if node_usd is None or not tokens
        else settings.nodes * node_usd / (tokens * 3600 / 1e6),
    )


def _autoscaler(settings: Settings) -> str | None:
    """Name of the HorizontalPodAutoscaler. Source of KEDA's name: keda v2.20.2, controllers/keda/hpa.go, getHPAName."""
    if not settings.is_scaled:
        return None
    return f"keda-hpa-{settings.server.name}"


def _elsewhere(settings: Settings) -> Iterator[Elsewhere]:
    capacity, ways = settings.capacity, settings.machine.ways
    having = {f"{settings.region}-{letter}" for letter in prices.zones(settings.machine.type, settings.region)}
    # A reservation is one zone's.
    if capacity.mode == "reservation" or (isinstance(capacity, Ladder) and capacity.reservation):
        yield "larger"
    else:
        if not having or having - set(settings.zones):
            yield "zone"
        if "reservation" in ways:
            yield "reservation"
    if isinstance(capacity, Ladder) and not (capacity.spot and capacity.flex_start_seconds):
        yield "rung"
    if "ladder" in ways and not isinstance(capacity, Ladder):
        yield "ladder"


def _slow(steps: Iterable[Step]) -> int:
    """Seconds of slow steps, rounded up to whole minutes, as Cloud Monitoring requires. The wait at flex-start has an end, and no slack."""
    return ceil(sum(step.high_seconds * (1 if step.id == "flex-start" else SLACK) for step in steps) / 60) * 60
