"""A vLLM fleet on GKE Autopilot: the whole stack on one page, from settings to components to exports."""

from __future__ import annotations

import pulumi

from infra.capacity import CalendarReservation, CalendarReservationArgs
from infra.platform import OwnPlatform, OwnPlatformArgs, SharedPlatform, SharedPlatformArgs
from infra.workload_access import WorkloadAccess, WorkloadAccessArgs
from settings.capacity import Calendar, Ladder
from settings.figures import figures
from settings.load import load
from settings.measurement import measurement
from workloads.benchmark import Benchmark, BenchmarkArgs
from workloads.capacity_ladder import CapacityLadder, CapacityLadderArgs
from workloads.gateway import Gateway, GatewayArgs
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.server import Server, ServerArgs
from workloads.weights import WRITER_IMAGE, Weights, WeightsArgs

settings, secrets = load()

# Google Cloud: made here, or another stack's.
platform: OwnPlatform | SharedPlatform
if settings.platform.stack is None:
    platform = OwnPlatform("platform", OwnPlatformArgs(settings=settings))
else:
    platform = SharedPlatform("platform", SharedPlatformArgs(settings=settings, stack=settings.platform.stack))
after_services = pulumi.ResourceOptions(depends_on=[platform.services])
access = WorkloadAccess("access", WorkloadAccessArgs(settings=settings, platform=platform.outputs), after_services)
if isinstance(settings.capacity, Calendar) and settings.capacity.create is not None:
    CalendarReservation(
        "calendar", CalendarReservationArgs(settings=settings, request=settings.capacity.create), after_services
    )

# Kubernetes: one provider, from the platform's cluster, inherited by every component below.
on_cluster = pulumi.ResourceOptions(providers={"kubernetes": platform.kubernetes}, depends_on=[access])
labels, model, zones = settings.object_labels, settings.serving.model, settings.zones


def image(reference: str) -> pulumi.Output[str]:
    """A Docker Hub image, pulled through the platform's registry."""
    return pulumi.Output.concat(platform.outputs.image_prefix, "/", reference)


namespace = Namespace(
    "namespace",
    NamespaceArgs(name=settings.namespace, traffic=settings.traffic, gpus=settings.gpu_ceiling, labels=labels),
    on_cluster,
)
guards: list[pulumi.Resource] = [access, namespace]
if isinstance(settings.capacity, Ladder) and settings.placement.compute_class is not None:
    ladder = CapacityLadderArgs(
        class_name=settings.placement.compute_class, ladder=settings.capacity, zones=zones, labels=labels
    )
    guards.append(CapacityLadder("ladder", ladder, on_cluster))
# No pod starts before its service account, its quota and the policies that guard it are there.
guarded = pulumi.ResourceOptions(providers={"kubernetes": platform.kubernetes}, depends_on=guards)
weights = Weights(
    "weights",
    WeightsArgs(
        namespace=namespace.name,
        model=model,
        image=image(WRITER_IMAGE),
        source=settings.weights.source,
        region=settings.region,
        zones=zones,
        size_gib=settings.weights.size_gib,
        throughput_mibps=settings.weights.throughput_mibps,
        writer=settings.weights.writer,
        class_prefix=settings.namespace,
        hf_token=settings.hf_token_secret or secrets.hf_token,
        disk_labels=settings.labels,
        labels=labels,
    ),
    guarded,
)
server = Server(
    "server",
    ServerArgs(
        name=settings.server.name,
        namespace=namespace.name,
        replicas=settings.own_replicas,
        engine=settings.serving.engine,
        model=model,
        placement=settings.placement,
        zones=zones,
        image=image(settings.server.image.reference),
        weights=weights.mount,
        hf_token=weights.token,
        api_key=settings.api_key_secret or secrets.api_key,
        resources=settings.server.resources,
        startup_minutes=settings.server.startup_minutes,
        internal_load_balancer=settings.server.internal_load_balancer,
        annotations=settings.declarations,
        labels=labels,
    ),
    guarded,
)
gateway: Gateway | None = None
if settings.gateway.enabled:
    gateway = Gateway(
        "gateway",
        GatewayArgs(
            namespace=namespace.name,
            server=server,
            name=settings.gateway.name,
            pool=settings.gateway.pool,
            gateway_class=settings.gateway.gateway_class,
            chart_version=settings.gateway.chart_version,
            timeout_seconds=settings.gateway.timeout_seconds,
            epp=settings.gateway.epp,
            labels=labels,
        ),
        guarded,
    )
endpoint = server.endpoint if gateway is None else gateway.endpoint
if settings.benchmark.enabled:
    Benchmark(
        "benchmark",
        BenchmarkArgs(
            namespace=namespace.name,
            server=server,
            endpoint=endpoint,
            results_bucket=platform.outputs.results_bucket,
            image=image(settings.server.image.reference),
            measurement=measurement(settings),
            run_on_update=settings.benchmark.run_on_update,
            labels=labels,
        ),
        guarded,
    )
if settings.monitoring.enabled:
    scrapes = MonitoringArgs(
        namespace=namespace.name,
        server=server,
        gateway=gateway,
        interval_seconds=settings.monitoring.interval_seconds,
        labels=labels,
    )
    Monitoring("monitoring", scrapes, guarded)

# What a person or another stack reads. The figures are the article's own, with their label; see docs/provenance.md.
numbers = figures(settings)
pulumi.export("endpoint", endpoint)
pulumi.export("clusterName", platform.outputs.cluster_name)
pulumi.export("kubeconfig", pulumi.Output.secret(platform.outputs.kubeconfig))
pulumi.export("platform", platform.outputs.export())
pulumi.export("modelRevision", settings.serving.model.revision)
pulumi.export("profile", settings.serving.profile.name)
for name, value in numbers.exports().items():
    pulumi.export(name, value)
