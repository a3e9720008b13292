"""Arguments of the Kubernetes components, made of a stack's settings as `__main__` makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facts.signals.catalogue import Catalogue, catalogue
from settings.derived.figures import figures
from settings.derived.measurement import measurement
from settings.derived.spending import rates
from settings.derived.traffic import traffic
from settings.derived.watched import watched
from settings.sections.capacity import Ladder, ladder_class
from settings.server_arguments import server_arguments
from settings.stack import Settings
from workloads.benchmark.benchmark import BenchmarkArgs
from workloads.capacity_ladder import CapacityLadderArgs
from workloads.gateway.gateway import Gateway, GatewayArgs
from workloads.monitoring import MonitoringArgs
from workloads.namespace import NamespaceArgs
from workloads.server.server import Server, ServerArgs
from workloads.space import Space
from workloads.spending.spending import SpendingGuardArgs
from workloads.weights.weights import WeightsArgs

if TYPE_CHECKING:
    import pulumi

NAMESPACE = "vllm"
REGISTRY = "europe-west4-docker.pkg.dev/fleet-tests/docker-hub"


def namespace_args(settings: Settings) -> NamespaceArgs:
    return NamespaceArgs(
        name=settings.namespace, traffic=traffic(settings), gpus=settings.gpu_ceiling, labels=settings.object_labels
    )


def space(settings: Settings) -> Space:
    return Space(namespace=NAMESPACE, labels=settings.object_labels, image_prefix=REGISTRY)


def spending_args(settings: Settings) -> SpendingGuardArgs:
    assert settings.spending is not None
    return SpendingGuardArgs(
        name=NAMESPACE,
        space=space(settings),
        traffic=traffic(settings),
        spending=settings.spending,
        rates=rates(settings),
        grace_seconds=settings.placement.grace_seconds,
        idle_seconds=settings.placement.idle_seconds,
    )


def ladder_args(settings: Settings) -> CapacityLadderArgs:
    assert isinstance(settings.capacity, Ladder)
    return CapacityLadderArgs(
        class_name=ladder_class(settings.namespace, settings.machine),
        ladder=settings.capacity,
        zones=settings.zones,
        machine=settings.machine,
        long_notice=settings.has_long_notice,
        returns=settings.returns,
        idle_seconds=settings.placement.idle_seconds,
        labels=settings.object_labels,
    )


def weights_args(settings: Settings, token: pulumi.Output[str] | None = None) -> WeightsArgs:
    return WeightsArgs(
        space=space(settings),
        model=settings.serving.model,
        zones=settings.zones,
        volume=settings.weights,
        class_prefix=settings.namespace,
        hf_token=settings.hf_token_secret or token,
        disk_labels=settings.labels,
    )


def server_args(settings: Settings, **others: Any) -> ServerArgs:
    """`others` take the place of what the settings say."""
    given: dict[str, Any] = {
        **server_arguments(settings),
        "space": space(settings),
        "hf_token": settings.hf_token_store,
        "api_key": settings.api_key_secret,
    }
    return ServerArgs(**given | others)


def gateway_args(settings: Settings, server: Server) -> GatewayArgs:
    return GatewayArgs(space=space(settings), server=server, gateway=settings.gateway)


def monitoring_args(settings: Settings, server: Server, gateway: Gateway | None = None) -> MonitoringArgs:
    return MonitoringArgs(
        space=space(settings),
        server=server,
        gateway=gateway,
        signals=signals(settings),
        monitoring=settings.monitoring,
    )


def signals(settings: Settings) -> Catalogue:
    return catalogue(watched(settings, figures(settings)))


def benchmark_args(settings: Settings, server: Server) -> BenchmarkArgs:
    return BenchmarkArgs(
        space=space(settings),
        server=server,
        endpoint=server.endpoint,
        results_bucket="the-bucket",
        measurement=measurement(settings),
        run_on_update=settings.benchmark.run_on_update,
    )
