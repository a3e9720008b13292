"""Arguments of the Kubernetes components, made of a stack's settings as `__main__` makes them."""

from __future__ import annotations

from typing import Any

import pulumi

from facts.signals.catalogue import Catalogue
from settings.derived import watched
from settings.derived.figures import figures
from settings.derived.measurement import measurement
from settings.derived.spending import rates
from settings.derived.traffic import traffic
from settings.sections.capacity import ComputeClassMode
from settings.sections.secret_stores import SecretStore
from settings.server_arguments import server_arguments
from settings.stack import Settings
from tests.support.as_sent import as_sent
from workloads import python_image
from workloads.benchmark.benchmark import BenchmarkArgs
from workloads.compute_class import ComputeClassArgs
from workloads.gateway.gateway import Gateway, GatewayArgs
from workloads.monitoring import MonitoringArgs
from workloads.namespace import NamespaceArgs
from workloads.secret_files import Stored
from workloads.server.pod import pod_template
from workloads.server.server import Server, ServerArgs
from workloads.spending.spending import SpendingGuardArgs
from workloads.weights.weights import WRITER_IMAGE, WeightsArgs

NAMESPACE = "vllm"
REGISTRY = "europe-west4-docker.pkg.dev/fleet-tests/docker-hub"


def namespace_args(settings: Settings) -> NamespaceArgs:
    return NamespaceArgs(
        name=settings.namespace, gpu_quota=settings.gpu_ceiling, pod_security=traffic(settings).pod_security
    )


def spending_args(settings: Settings) -> SpendingGuardArgs:
    assert settings.spending is not None
    return SpendingGuardArgs(
        namespace=NAMESPACE,
        image=f"{REGISTRY}/{python_image.IMAGE}",
        traffic=traffic(settings),
        spending=settings.spending,
        rates=rates(settings),
        placement=settings.placement,
    )


def compute_class_args(settings: Settings) -> ComputeClassArgs:
    assert isinstance(settings.capacity, ComputeClassMode)
    return ComputeClassArgs(
        namespace=settings.namespace,
        capacity=settings.capacity,
        placement=settings.placement,
        extended_shutdown=settings.has_extended_shutdown,
        active_migration=settings.active_migration,
    )


def weights_args(settings: Settings, token: pulumi.Output[str] | None = None) -> WeightsArgs:
    return WeightsArgs(
        namespace=NAMESPACE,
        image=f"{REGISTRY}/{WRITER_IMAGE}",
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
        "namespace": NAMESPACE,
        "image": f"{REGISTRY}/{settings.serving.image.reference}",
        "hf_token": None if settings.hf_token_store is None else stored(settings.hf_token_store),
        "api_key": settings.api_key_secret,
    }
    return ServerArgs(**given | others)


def pod_of(args: ServerArgs) -> dict[str, Any]:
    """The template of the server's pods, as it is sent."""
    made: dict[str, Any] = as_sent(pod_template(args))
    return made


def stored(store: SecretStore) -> Stored:
    """A secret of this store whose object nobody looks at."""
    return Stored(object=object.__new__(pulumi.CustomResource), store=store, version=None)


def gateway_args(settings: Settings, server: Server) -> GatewayArgs:
    return GatewayArgs(server=server, gateway=settings.gateway)


def monitoring_args(settings: Settings, server: Server, gateway: Gateway | None = None) -> MonitoringArgs:
    return MonitoringArgs(
        server=server,
        gateway=gateway,
        signals=signals(settings),
        interval_seconds=settings.monitoring.interval_seconds,
    )


def signals(settings: Settings) -> Catalogue:
    return watched.signals(settings, figures(settings))


def benchmark_args(settings: Settings, server: Server) -> BenchmarkArgs:
    return BenchmarkArgs(
        server=server,
        endpoint=server.endpoint,
        results_bucket="the-bucket",
        measurement=measurement(settings) if settings.benchmark.run_on_update else None,
    )
