"""The arguments of `Server` that follow from a stack's settings, of the servers or of the canary (`Settings.as_canary`)."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, TypedDict

from facts.engines import BEHIND_BALANCER_SECONDS
from facts.lessons.words import TENSOR_PARALLEL_REASON_ANNOTATION
from facts.time_to_serve import time_to_serve
from settings.checks.declarations import declarations
from settings.checks.declared_server import DeclaredServer
from settings.derived.replica_start import replica_start

if TYPE_CHECKING:
    from settings.sections.capacity import Placement
    from settings.sections.engine import Engine
    from settings.sections.model import Model
    from settings.sections.server import PodResources
    from settings.sections.shape import Shape
    from settings.stack import Settings


class ServerArguments(TypedDict):
    """Fields of `workloads.server.server.ServerArgs`, which documents them."""

    name: str
    replicas: int | None
    starts_empty: bool
    max_replicas: int | None
    likely_start_seconds: int
    engine: Engine
    model: Model
    placement: Placement
    resources: PodResources
    startup_minutes: int
    drain_seconds: int | None
    keep_alive_seconds: int | None
    rank_ports: bool
    shape: Shape | None
    shares_experts: bool
    internal_load_balancer: bool
    annotations: Mapping[str, str]
    deployment_annotations: Mapping[str, str]


def server_arguments(settings: Settings) -> ServerArguments:
    """The arguments of a stack's servers."""
    reason = settings.server.tensor_parallel_reason
    return {
        "name": settings.server.name,
        "replicas": settings.own_replicas,
        "starts_empty": settings.scales_by_keda and 0 in (settings.server.replicas, settings.server.scaling.min),
        "max_replicas": settings.server.scaling.max if settings.scales_by_keda else None,
        "likely_start_seconds": ceil(time_to_serve(replica_start(settings)).likely_seconds),
        "engine": settings.serving.engine,
        "model": settings.serving.model,
        "placement": settings.placement,
        "resources": settings.resources,
        "startup_minutes": settings.server.startup_minutes,
        "drain_seconds": settings.server.drain_seconds,
        "keep_alive_seconds": BEHIND_BALANCER_SECONDS if settings.gateway.enabled else None,
        "rank_ports": settings.server.rank_ports,
        "shape": settings.server.shape,
        "shares_experts": DeclaredServer(settings).has_experts,
        "internal_load_balancer": settings.server.internal_load_balancer,
        "annotations": declarations(settings),
        "deployment_annotations": {} if reason is None else {TENSOR_PARALLEL_REASON_ANNOTATION: reason},
    }
