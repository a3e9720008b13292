"""The settings that a stack's alerts and dashboard depend on."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import TYPE_CHECKING

from facts.names import cluster_name
from facts.releases import number_of
from facts.signals.catalogue import catalogue
from facts.signals.model import Catalogue, Front, Price, Watched
from facts.time_to_serve import Step, time_to_serve
from settings.derived.replica_start import replica_start
from settings.derived.spending import rates
from settings.sections.capacity import ComputeClassMode

if TYPE_CHECKING:
    from settings.derived.figures import Figures
    from settings.stack import Settings

SLACK = 1.25
"""Factor of a slow start. Assumed: an alert that fires at every slow start would be disabled."""
TO_PULL = ("flex-start", "gpu-node", "image-pull")
"""Steps of a pod that is Pending."""


def watched(settings: Settings, figures: Figures) -> Watched:
    """The monitored fleet of one stack."""
    engine, promised = settings.serving.engine, settings.monitoring.objectives
    shape, start = settings.server.shape, time_to_serve(replica_start(settings)).steps
    return Watched(
        server=settings.server.name,
        namespace=settings.namespace,
        stack=settings.stack,
        project=settings.project,
        cluster=settings.cluster.name or cluster_name(settings.stack) if settings.owns_platform else None,
        release=number_of(engine.version),
        engines_per_pod=engine.data_parallel_size,
        prefill_engines=0 if shape is None else shape.prefill_gpus // engine.tensor_parallel_size,
        speculative=engine.speculative is not None,
        prefix_caching=settings.serving.caches_prefixes,
        autoscaler=_autoscaler(settings),
        spending=None if settings.spending is None else settings.spending.then,
        batch=settings.batch.enabled,
        only_batches=settings.scales_by_batch,
        routers=settings.has_router,
        gateway=_front(settings),
        price=_price(settings, figures),
        ttft_seconds=promised.ttft_seconds,
        tpot_seconds=promised.tpot_ms / 1000,
        objective=promised.objective,
        node_seconds=_slow(step for step in start if step.id in TO_PULL),
        start_seconds=_slow(start),
        interval_seconds=settings.monitoring.interval_seconds,
    )


def _front(settings: Settings) -> Front | None:
    gateway = settings.gateway
    if not gateway.enabled:
        return None
    pool = gateway.pool_name if settings.has_picker else None
    return Front(is_external=gateway.is_public, pool=pool, picker=gateway.epp.release)


def _price(settings: Settings, figures: Figures) -> Price | None:
    usd, tokens, counted = figures.bill.nodes.unit_price_usd, figures.output_tokens_per_s, rates(settings)
    if usd is None:
        return None
    return Price(
        per_node=usd,
        is_upper_bound=isinstance(settings.capacity, ComputeClassMode),
        reserved=counted.reserved_nodes * counted.per_reserved_node,
        pods_per_node=max(1, settings.machine.gpus // settings.gpus_per_replica),
        by_guard=settings.spending is not None and settings.monitoring.alerts is not None and not counted.paid_anyway,
        planned_per_million=settings.nodes * usd / (tokens * 3600 / 1e6) if tokens else None,
    )


def signals(settings: Settings, figures: Figures) -> Catalogue:
    """Recordings, alerts and panels of one stack."""
    return catalogue(watched(settings, figures))


def _autoscaler(settings: Settings) -> str | None:
    """Name of the HorizontalPodAutoscaler. Source of KEDA's name: keda v2.20.2, controllers/keda/hpa.go, getHPAName."""
    if not settings.is_scaled:
        return None
    return f"keda-hpa-{settings.server.name}"


def _slow(steps: Iterable[Step]) -> int:
    """Seconds of slow steps, rounded up to whole minutes, as Cloud Monitoring requires. The wait at flex-start has an end, and no slack."""
    return ceil(sum(step.high_seconds * (1 if step.id == "flex-start" else SLACK) for step in steps) / 60) * 60
