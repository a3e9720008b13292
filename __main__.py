"""A vLLM fleet on GKE Autopilot: the whole stack on one page, from settings to components to exports."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.budget import Budget, BudgetArgs
from infra.capacity import CalendarReservation, CalendarReservationArgs
from infra.cluster import Cluster, ClusterArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.naming import labels_of
from infra.network import Network, NetworkArgs
from infra.platform import OwnPlatform, OwnPlatformArgs, SharedPlatform, SharedPlatformArgs
from infra.results_bucket import ResultsBucket, ResultsBucketArgs
from infra.services import Services, ServicesArgs
from infra.workload_access import WorkloadAccess, WorkloadAccessArgs
from settings.checks.declarations import declarations
from settings.derived.figures import figures
from settings.derived.google_cloud_needs import dataset_object, required_apis, secret_readers
from settings.derived.measurement import measurement
from settings.derived.traffic import traffic
from settings.load import load
from settings.sections.capacity import Calendar, Ladder
from workloads.benchmark import Benchmark, BenchmarkArgs
from workloads.capacity_ladder import CapacityLadder, CapacityLadderArgs
from workloads.gateway import Gateway, GatewayArgs
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.server import Server, ServerArgs
from workloads.weights import WRITER_IMAGE, Weights, WeightsArgs

settings, secrets = load()

# Google Cloud: made here, or another stack's. `**dict(section)` passes a section of the stack file on as it stands,
# `**section.without(...)` all of it but what is named.
project, fleet, net = settings.project, f"vLLM fleet, stack {settings.stack}", settings.network
place: dict[str, Any] = {"project": project, "region": settings.region, "name_prefix": settings.stack}
labels, apis = labels_of(settings.stack, settings.labels), required_apis(settings)
if settings.platform.stack is None:
    own = OwnPlatform("platform", OwnPlatformArgs(namespace=settings.namespace))
    inside = pulumi.ResourceOptions(parent=own)
    services = Services("platform-services", ServicesArgs(project=project, apis=apis), inside)
    results = ResultsBucket(
        "platform-results",
        ResultsBucketArgs(**place, **dict(settings.results), labels=labels),
        pulumi.ResourceOptions(parent=own, depends_on=[services]),
    )
    # Everything comes after the bucket, so that on destroy everything goes before it: should results be left in
    # it, destroy stops there, when nothing that costs money is left.
    prepared = pulumi.ResourceOptions(parent=own, depends_on=[services, results])
    network = Network(
        "platform-network",
        NetworkArgs(
            **place,
            node_range=net.node_cidr,
            pod_range=net.pod_cidr,
            service_range=net.service_cidr,
            proxy_only_range=net.proxy_only.cidr if settings.proxy_only_subnet else None,
            nat_min_ports_per_vm=net.nat.min_ports_per_vm,
            nat_max_ports_per_vm=net.nat.max_ports_per_vm,
        ),
        prepared,
    )
    images = ImageRegistry("platform-images", ImageRegistryArgs(**place, labels=labels), prepared)
    account = f"vLLM fleet nodes, stack {settings.stack}"
    nodes = NodeIdentity("platform-nodes", NodeIdentityArgs(**place, images=images, display_name=account), prepared)
    cluster = Cluster(
        "platform-cluster",
        ClusterArgs(network=network, nodes=nodes, description=fleet, labels=labels, **dict(settings.cluster)),
        prepared,
    )
    number = services.project_number()
    if settings.budget is not None:
        title = f"vllm-fleet {settings.stack} ({project})"
        watched = BudgetArgs(project=project, project_number=number, display_name=title, **dict(settings.budget))
        Budget("platform-budget", watched, prepared)
    # Every object on the cluster depends on its provider, so this puts the whole network, the proxy-only subnet
    # with it, behind the last Gateway on destroy: load balancers hold that subnet and would block it.
    behind = pulumi.ResourceOptions(parent=own, depends_on=[cluster, network])
    kubernetes = k8s.Provider("platform-kubernetes", kubeconfig=cluster.kubeconfig, opts=behind)
    platform = own.made_of(results=results, network=network, images=images, cluster=cluster, project_number=number)
else:
    joined = SharedPlatform(
        "platform",
        SharedPlatformArgs(
            stack=settings.platform.stack,
            project=project,
            region=settings.region,
            namespace=settings.namespace,
            proxy_only_subnet=settings.gateway.enabled,
            apis=apis,
        ),
    )
    services, kubernetes, platform = joined.services, joined.kubernetes, joined.outputs
after_services = pulumi.ResourceOptions(depends_on=[services])
access = WorkloadAccess(
    "access",
    WorkloadAccessArgs(
        project=project,
        project_number=platform.project_number,
        workload_pool=platform.workload_pool,
        namespace=settings.namespace,
        secret_readers=secret_readers(settings),
        results_bucket=platform.results_bucket if settings.benchmark.enabled else None,
        dataset_object=dataset_object(settings),
    ),
    after_services,
)
if isinstance(settings.capacity, Calendar) and settings.capacity.create is not None:
    CalendarReservation(
        "calendar",
        CalendarReservationArgs(
            project=project,
            zone=settings.zones[0],
            reservation=settings.capacity.reservation,
            usd_per_node_hour=settings.capacity.usd_per_node_hour,
            description=fleet,
            **dict(settings.capacity.create),
        ),
        after_services,
    )

# Kubernetes: one provider, from the platform's cluster, inherited by every component below.
on_cluster = pulumi.ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=[access])
marks, model, zones = settings.object_labels, settings.serving.model, settings.zones


def image(reference: str) -> pulumi.Output[str]:
    """A Docker Hub image, pulled through the platform's registry."""
    return pulumi.Output.concat(platform.image_prefix, "/", reference)


namespace = Namespace(
    "namespace",
    NamespaceArgs(name=settings.namespace, traffic=traffic(settings), gpus=settings.gpu_ceiling, labels=marks),
    on_cluster,
)
guards: list[pulumi.Resource] = [access, namespace]
if isinstance(settings.capacity, Ladder) and settings.placement.compute_class is not None:
    ladder = CapacityLadderArgs(
        class_name=settings.placement.compute_class, ladder=settings.capacity, zones=zones, labels=marks
    )
    guards.append(CapacityLadder("ladder", ladder, on_cluster))
# No pod starts before its service account, its quota and the policies that guard it are there.
guarded = pulumi.ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=guards)
weights = Weights(
    "weights",
    WeightsArgs(
        namespace=namespace.name,
        model=model,
        image=image(WRITER_IMAGE),
        region=settings.region,
        zones=zones,
        **settings.weights.without("token_secret"),
        class_prefix=settings.namespace,
        hf_token=settings.hf_token_secret or secrets.hf_token,
        disk_labels=settings.labels,
        labels=marks,
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
        annotations=declarations(settings),
        labels=marks,
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
            **settings.gateway.without("enabled"),
            labels=marks,
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
            results_bucket=platform.results_bucket,
            image=image(settings.server.image.reference),
            measurement=measurement(settings),
            run_on_update=settings.benchmark.run_on_update,
            labels=marks,
        ),
        guarded,
    )
if settings.monitoring.enabled:
    scrapes = MonitoringArgs(
        namespace=namespace.name,
        server=server,
        gateway=gateway,
        **settings.monitoring.without("enabled"),
        labels=marks,
    )
    Monitoring("monitoring", scrapes, guarded)

# What a person or another stack reads. The figures are the article's own, with their label; see docs/provenance.md.
numbers = figures(settings)
pulumi.export("endpoint", endpoint)
pulumi.export("clusterName", platform.cluster_name)
pulumi.export("kubeconfig", pulumi.Output.secret(platform.kubeconfig))
pulumi.export("platform", platform.export())
pulumi.export("modelRevision", settings.serving.model.revision)
pulumi.export("profile", settings.serving.profile.name)
for name, value in numbers.exports().items():
    pulumi.export(name, value)
