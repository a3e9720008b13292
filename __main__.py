"""A vLLM fleet on GKE Autopilot: what it consists of. `depends_on` and `after` say what waits for what."""

from __future__ import annotations

from dataclasses import replace

import pulumi
import pulumi_gcp as gcp
from pulumi import ResourceOptions

from facts.names import EPP_EXT_PROC_PORT, KEDA_VERSION
from infra.alerting import Alerting, AlertingArgs
from infra.bucket import Bucket, BucketArgs
from infra.budget import Budget, BudgetArgs
from infra.cluster import Cluster, ClusterArgs
from infra.cluster_outputs import ClusterOutputs
from infra.dashboard import Dashboard, DashboardArgs
from infra.deletion_protection import DeletionProtection, DeletionProtectionArgs, everything_from_now_on
from infra.existing_cluster import ExistingCluster, ExistingClusterArgs, cluster_of_kubeconfig
from infra.gateway_name import GatewayName, GatewayNameArgs
from infra.identity import NodeIdentity, NodeIdentityArgs
from infra.image_registry import ImageRegistry, ImageRegistryArgs
from infra.network import ExistingNetwork, Network, NetworkArgs, ProxyOnlySubnet, ProxyOnlySubnetArgs
from infra.services import Services, ServicesArgs
from infra.stack_cluster import Needs, cluster_of_stack
from infra.workload_access import WorkloadAccess, WorkloadAccessArgs
from settings.derived import compile_cache, figures, google_cloud_needs, readme, watched
from settings.derived.canary import has_own_weights
from settings.derived.measurement import measurement
from settings.derived.router import router_needs
from settings.derived.scaling import scaling_policy
from settings.derived.spending import rates
from settings.derived.traffic import traffic
from settings.load import load
from settings.sections.capacity import ComputeClassMode
from settings.server_arguments import server_arguments
from workloads import names, python_image
from workloads.autoscaling import Autoscaling, AutoscalingArgs
from workloads.benchmark.benchmark import Benchmark, BenchmarkArgs
from workloads.compute_class import ComputeClass, ComputeClassArgs
from workloads.gateway.gateway import Gateway, GatewayArgs
from workloads.keda.keda import Keda, KedaArgs
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.network_policies import NetworkPolicies, NetworkPoliciesArgs
from workloads.router.router import IMAGE as HAPROXY_IMAGE
from workloads.router.router import Router, RouterArgs
from workloads.server.server import Server, ServerArgs
from workloads.spending.spending import SpendingGuard, SpendingGuardArgs
from workloads.weights.weights import WRITER_IMAGE, Weights, WeightsArgs

settings, secrets = load()
project, region, namespace_name, canary = settings.project, settings.region, settings.namespace, settings.as_canary
connections, everything = traffic(settings), everything_from_now_on()

# Google Cloud. Everything depends on the buckets for results and batches: a destroy that finds something in one stops when all that costs
# money is gone.
google = gcp.Provider("google", project=project, region=region, default_labels=settings.google_labels)
services_args = ServicesArgs(apis=google_cloud_needs.required_apis(settings))
services = Services("services", services_args, ResourceOptions(provider=google))
after_services = ResourceOptions(provider=google, depends_on=[services])
results = batches = gateway_name = None
network: Network | ExistingNetwork | None = None
if settings.owns_platform:
    results_args = BucketArgs(project=project, location=region, retention_days=settings.results.retention_days)
    results = Bucket("results", results_args, after_services)
if settings.batch.enabled:
    batches_args = BucketArgs(
        project=project,
        location=region,
        retention_days=settings.batch.retention_days,
        # What is deleted is gone at once: pods replace checkpoints every minute, which would be stored and billed for another week, and a
        # document that is past its retention must not be readable.
        soft_delete_seconds=0,
    )
    batches = Bucket("batches", batches_args, after_services)
first: list[pulumi.Resource] = [one for one in (services, results, batches) if one is not None]
on_google = ResourceOptions(provider=google, depends_on=first)

# The cluster: this stack's, one that no stack manages, or another stack's.
cluster: Cluster | ExistingCluster
if settings.owns_platform:
    project_number = services.project_number()
    if settings.network.existing is None:
        network_args = NetworkArgs(
            region=region,
            node_cidr=settings.network.node_cidr,
            pod_cidr=settings.network.pod_cidr,
            service_cidr=settings.network.service_cidr,
        )
        network = Network("network", network_args, on_google)
    else:
        network = ExistingNetwork(
            project=settings.network.existing.project or project,
            region=region,
            names=settings.network.existing,
            pod_cidr=settings.network.pod_cidr,
        )
    before_cluster = [*first]
    if settings.makes_proxy_only_subnet:
        ports = (*settings.ports, EPP_EXT_PROC_PORT)
        proxies_args = ProxyOnlySubnetArgs(network=network, cidr=settings.network.proxy_only.cidr, ports=ports)
        before_cluster.append(ProxyOnlySubnet("proxies", proxies_args, on_google))
    images_args = ImageRegistryArgs(
        project=project, location=region, account=settings.registry, project_number=project_number
    )
    images = ImageRegistry("images", images_args, on_google)
    nodes = NodeIdentity("nodes", NodeIdentityArgs(project=project, images=images), on_google)
    cluster_args = ClusterArgs(project=project, location=region, network=network, nodes=nodes, cluster=settings.cluster)
    cluster = Cluster("cluster", cluster_args, ResourceOptions(provider=google, depends_on=before_cluster))
    cluster_outputs = ClusterOutputs(
        name=cluster.name,
        identity=cluster.identity,
        kubeconfig=cluster.kubeconfig,
        project_number=project_number,
        workload_pool=cluster.workload_pool,
        image_prefix=images.image_prefix,
        results_bucket="" if results is None else results.name,
        ranges=connections.ranges,
        keda=KEDA_VERSION if settings.makes_keda else "",
        keda_reads_metrics=settings.keda_reads_metrics,
    )
    if settings.budget is not None:
        budget_args = BudgetArgs(project=project, project_number=project_number, budget=settings.budget)
        Budget("budget", budget_args, on_google)
else:
    if settings.platform.kubeconfig is not None:
        cluster_outputs = cluster_of_kubeconfig(settings.platform, project, region, services.project_number())
    else:
        needs = Needs(
            proxy_only_subnet=settings.gateway.enabled,
            keda=settings.scales_by_keda,
            keda_reads_metrics=settings.server.scaling.mode == "load",
        )
        cluster_outputs = cluster_of_stack(settings.platform.stack or "", project, region, namespace_name, needs)
    cluster = ExistingCluster("cluster", ExistingClusterArgs(cluster=cluster_outputs), on_google)

# What pods may read and write in Google Cloud, and the gateway's name.
cache_by_service_account: dict[str, compile_cache.PersistedCache] = {}
if settings.server.compile_cache.enabled:
    # Its contents can be computed again. Objects do not expire by age: otherwise a serving pod could replace what another pod stored before
    # it served.
    caches = Bucket("caches", BucketArgs(project=project, location=region, force_destroy=True), on_google)
    cache_by_service_account = compile_cache.persisted_caches(settings, caches.name)
access_args = WorkloadAccessArgs(
    project=project,
    project_number=cluster_outputs.project_number,
    workload_pool=cluster_outputs.workload_pool,
    namespace=namespace_name,
    secret_readers=google_cloud_needs.secret_readers(settings),
    results_bucket=cluster_outputs.results_bucket if settings.benchmark.enabled else None,
    batch_bucket=None if batches is None else batches.name,
    compile_caches=tuple(cache_by_service_account.values()),
    keda_reads_metrics=settings.keda_reads_metrics,
    dataset_object=google_cloud_needs.dataset_object(settings),
)
access = WorkloadAccess("access", access_args, on_google)
if settings.gateway.enabled and settings.gateway.hostname is not None:
    subnet = None if network is None else network.subnetwork
    gateway_name_args = GatewayNameArgs(location=region, gateway=settings.gateway, subnet=subnet)
    gateway_name = GatewayName("gateway-name", gateway_name_args, on_google)

# The cluster's objects. Pods start only after their namespace's quota and network policies exist.
on_cluster = ResourceOptions(provider=cluster.kubernetes, depends_on=[access])
namespace_args = NamespaceArgs(
    name=namespace_name, gpu_quota=settings.gpu_ceiling, pod_security=connections.pod_security
)
namespace = Namespace("namespace", namespace_args, on_cluster)
policies_args = NetworkPoliciesArgs(namespace=namespace.name, traffic=connections, ranges=cluster_outputs.ranges)
policies = NetworkPolicies("network-policies", policies_args, on_cluster)
in_namespace = ResourceOptions.merge(on_cluster, ResourceOptions(depends_on=[namespace, policies]))


def after(*needed: pulumi.Resource | None) -> ResourceOptions:
    """In the namespace, after what is given, too."""
    return ResourceOptions.merge(in_namespace, ResourceOptions(depends_on=[one for one in needed if one is not None]))


keda = guard = compute_class = canary_server = router = gateway = dashboard = None
weights_args = WeightsArgs(
    namespace=namespace.name,
    image=cluster_outputs.image(WRITER_IMAGE),
    model=settings.serving.model,
    zones=settings.zones,
    volume=settings.weights,
    class_prefix=namespace_name,
    hf_token=settings.hf_token_secret or secrets.hf_token,
    disk_labels=settings.labels,
)
weights = Weights("weights", weights_args, in_namespace)
if settings.makes_keda:
    keda = Keda("keda", KedaArgs(ranges=connections.ranges), on_cluster)
if settings.spending is not None:
    guard_args = SpendingGuardArgs(
        namespace=namespace_name,
        image=cluster_outputs.image(python_image.IMAGE),
        traffic=connections,
        ranges=cluster_outputs.ranges,
        spending=settings.spending,
        rates=rates(settings),
        placement=settings.placement,
    )
    guard = SpendingGuard("spending", guard_args, in_namespace)
if isinstance(settings.capacity, ComputeClassMode):
    compute_class_args = ComputeClassArgs(
        namespace=namespace_name,
        capacity=settings.capacity,
        placement=settings.placement,
        extended_shutdown=settings.has_extended_shutdown,
        active_migration=settings.active_migration,
    )
    # GKE may install ComputeClass long after the cluster: a download of weights takes longer. Without a download, the first update of a new
    # cluster may stop here (docs/google-cloud.md).
    compute_class = ComputeClass("capacity", compute_class_args, after(weights))
server_args = ServerArgs(
    **server_arguments(settings),
    namespace=namespace.name,
    image=cluster_outputs.image(settings.serving.image.reference),
    weights=weights.mount,
    hf_token=weights.token,
    api_key=settings.api_key_secret or secrets.api_key,
    compile_cache=cache_by_service_account.get(compile_cache.server_account(settings)),
)
# After the guard: no GPU is rented before it counts, a renewed limit reaches it before paused servers, and a destroy takes it last. The
# pods also wait for the weights' volume.
of_servers = after(guard, compute_class)
server = Server("server", server_args, of_servers)
if (scaling := scaling_policy(settings)) is not None:
    autoscaling_args = AutoscalingArgs(server=server, policy=scaling, project=project)
    Autoscaling("autoscaling", autoscaling_args, after(keda))
if canary is not None:
    # Separate resources: adding or removing them changes nothing of the servers.
    canary_weights, canary_account = weights.mount, compile_cache.server_account(canary)
    if has_own_weights(settings):
        canary_weights_args = replace(
            weights_args,
            model=canary.serving.model,
            hf_token=weights.token,
            beside=weights,
        )
        canary_weights = Weights("weights-canary", canary_weights_args, in_namespace).mount
    canary_args = replace(
        server_args,
        **server_arguments(canary),
        image=cluster_outputs.image(canary.serving.image.reference),
        weights=canary_weights,
        api_key=server.key,
        compile_cache=cache_by_service_account.get(canary_account),
        creates_account=canary_account != server_args.service_account,
    )
    canary_server = Server("server-canary", canary_args, of_servers)
if (routing := router_needs(settings)) is not None:
    # HAProxy waits for no server: it starts as soon as it has a node.
    router_args = RouterArgs(server=server, image=cluster_outputs.image(HAPROXY_IMAGE), **routing)
    router = Router("router", router_args, in_namespace)
if settings.gateway.enabled:
    gateway_args = GatewayArgs(
        server=server,
        canary=None if settings.canary_pool is None else canary_server,
        canary_weight=settings.canary_weight,
        endpoint_picker=settings.has_picker,
        router=router,
        gateway=settings.gateway,
        address=None if gateway_name is None else gateway_name.address_name,
        certificate=None if gateway_name is None else gateway_name.certificate_name,
    )
    # Its route waits for a canary's pods, not for those of the servers: until one is ready, it answers 503. A route to routers that do not
    # run yet would, too.
    gateway = Gateway("gateway", gateway_args, after(router))
endpoint = (gateway or router or server).endpoint
if settings.benchmark.enabled:
    benchmark_args = BenchmarkArgs(
        server=server,
        endpoint=endpoint,
        results_bucket=cluster_outputs.results_bucket,
        measurement=measurement(settings) if settings.benchmark.run_on_update else None,
    )
    Benchmark("benchmark", benchmark_args, in_namespace)
if settings.batch.enabled:
    # Of its pods, whose Job `fleet batch run` makes.
    names.service_account("batch-account", names.BATCH_ACCOUNT, namespace.name, in_namespace)

# Cloud Monitoring.
numbers = figures.figures(settings)
signals = watched.signals(settings, numbers)
if settings.monitoring.enabled:
    monitoring_args = MonitoringArgs(
        server=server,
        canary=canary_server,
        gateway=gateway,
        router=router is not None,
        signals=signals,
        interval_seconds=settings.monitoring.interval_seconds,
    )
    # Without servers at the start, KEDA's pods are the first that have a node.
    Monitoring("monitoring", monitoring_args, after(keda if server_args.starts_empty else None))
if settings.monitoring.has_dashboard:
    dashboard = Dashboard("dashboard", DashboardArgs(project=project, signals=signals), on_google)
    pulumi.export("dashboard", dashboard.url)
if settings.monitoring.alerts is not None:
    alerting_args = AlertingArgs(
        signals=signals,
        alerts=settings.monitoring.alerts,
        secrets=secrets,
        user_labels=settings.google_labels,
        dashboard_url=None if dashboard is None else dashboard.url,
    )
    Alerting("alerting", alerting_args, on_google)
if settings.owns_platform:
    protection_args = DeletionProtectionArgs(enabled=settings.cluster.deletion_protection, covers=everything)
    DeletionProtection("deletion-protection", protection_args)

# Outputs for people, for `fleet` and for other stacks.
shown = cluster_outputs.exports(joinable=settings.owns_platform)
outputs = {**readme.described(settings, numbers), **shown, "endpoint": endpoint}
for name, value in outputs.items():
    pulumi.export(name, value)
if batches is not None:
    pulumi.export("batchBucket", batches.name)
if gateway_name is not None and gateway is not None:
    pulumi.export("dns", gateway_name.dns_records(gateway.address))
pulumi.export("kubeconfig", pulumi.Output.secret(cluster_outputs.kubeconfig))
pulumi.export("readme", pulumi.Output.all(**outputs).apply(readme.filled))
