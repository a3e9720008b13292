"""A vLLM fleet on GKE Autopilot: the whole stack on one page, from settings to components to exports."""

from __future__ import annotations

import pulumi

from infra.capacity import CalendarReservation, CalendarReservationArgs
from infra.platform import OwnPlatform, OwnPlatformArgs, SharedPlatform, SharedPlatformArgs
from infra.workload_access import WorkloadAccess, WorkloadAccessArgs
from settings.capacity import Calendar
from settings.figures import figures
from settings.load import load
from workloads.benchmark import Benchmark, BenchmarkArgs
from workloads.capacity_ladder import CapacityLadder, CapacityLadderArgs
from workloads.gateway import Gateway, GatewayArgs
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.server import Server, ServerArgs
from workloads.weights import Weights, WeightsArgs

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
namespace = Namespace("namespace", NamespaceArgs(settings=settings), on_cluster)
guards: list[pulumi.Resource] = [access, namespace]
if settings.placement.compute_class is not None:
    guards.append(CapacityLadder("ladder", CapacityLadderArgs(settings=settings), on_cluster))
# No pod starts before its service account, its quota and the policies that guard it are there.
guarded = pulumi.ResourceOptions(providers={"kubernetes": platform.kubernetes}, depends_on=guards)
weights = Weights(
    "weights",
    WeightsArgs(
        settings=settings,
        namespace=namespace.name,
        image_prefix=platform.outputs.image_prefix,
        hf_token=secrets.hf_token,
    ),
    guarded,
)
server = Server(
    "server",
    ServerArgs(
        settings=settings,
        namespace=namespace.name,
        image_prefix=platform.outputs.image_prefix,
        weights=weights.mount,
        api_key=secrets.api_key,
    ),
    guarded,
)
endpoint = server.endpoint
if settings.gateway.enabled:
    gateway = Gateway("gateway", GatewayArgs(settings=settings, namespace=namespace.name, server=server), guarded)
    endpoint = gateway.endpoint
if settings.benchmark.enabled:
    Benchmark(
        "benchmark",
        BenchmarkArgs(
            settings=settings,
            namespace=namespace.name,
            image_prefix=platform.outputs.image_prefix,
            endpoint=endpoint,
            results_bucket=platform.outputs.results_bucket,
            server=server,
        ),
        guarded,
    )
if settings.monitoring.enabled:
    Monitoring("monitoring", MonitoringArgs(settings=settings, namespace=namespace.name), guarded)

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
