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
from settings.capacity import Calendar
from settings.figures import figures
from settings.google_cloud_needs import dataset_object, required_apis, secret_readers
from settings.load import load
from workloads.benchmark import Benchmark, BenchmarkArgs
from workloads.capacity_ladder import CapacityLadder, CapacityLadderArgs
from workloads.gateway import Gateway, GatewayArgs
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.server import Server, ServerArgs
from workloads.weights import Weights, WeightsArgs

settings, secrets = load()

# Google Cloud: made here, or another stack's. `**dict(section)` passes a section of the stack file on as it stands.
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
namespace = Namespace("namespace", NamespaceArgs(settings=settings), on_cluster)
guards: list[pulumi.Resource] = [access, namespace]
if settings.placement.compute_class is not None:
    guards.append(CapacityLadder("ladder", CapacityLadderArgs(settings=settings), on_cluster))
# No pod starts before its service account, its quota and the policies that guard it are there.
guarded = pulumi.ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=guards)
weights = Weights(
    "weights",
    WeightsArgs(
        settings=settings,
        namespace=namespace.name,
        image_prefix=platform.image_prefix,
        hf_token=secrets.hf_token,
    ),
    guarded,
)
server = Server(
    "server",
    ServerArgs(
        settings=settings,
        namespace=namespace.name,
        image_prefix=platform.image_prefix,
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
            image_prefix=platform.image_prefix,
            endpoint=endpoint,
            results_bucket=platform.results_bucket,
            server=server,
        ),
        guarded,
    )
if settings.monitoring.enabled:
    Monitoring("monitoring", MonitoringArgs(settings=settings, namespace=namespace.name), guarded)

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
