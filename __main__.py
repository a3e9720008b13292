"""A vLLM fleet on GKE Autopilot: what it consists of, in the order in which it starts."""

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
from settings.derived.canary import weights_ending
from settings.derived.measurement import measurement
from settings.derived.router import router_needs
from settings.derived.scaling import scaling_policy
from settings.derived.spending import rates
from settings.derived.traffic import traffic
from settings.load import load
from settings.sections.capacity import Ladder
from settings.server_arguments import server_arguments
from workloads import names, small_pod
from workloads.autoscaling import Autoscaling, AutoscalingArgs
from workloads.benchmark.benchmark import Benchmark, BenchmarkArgs
from workloads.capacity_ladder import CapacityLadder, CapacityLadderArgs
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
project, region, vpc, canary = settings.project, settings.region, settings.network, settings.as_canary
connections, everything = traffic(settings), everything_from_now_on()

# Google Cloud. Everything depends on the buckets: a destroy that finds results in one stops when all that costs money is gone.
google = gcp.Provider("google", project=project, region=region, default_labels=settings.google_labels)
apis = ServicesArgs(apis=google_cloud_needs.required_apis(settings))
services = Services("services", apis, ResourceOptions(provider=google))
after_services = ResourceOptions(provider=google, depends_on=[services])
results = batches = host = None
network: Network | ExistingNetwork | None = None
if settings.owns_platform:
    days = settings.results.retention_days
    results = Bucket("results", BucketArgs(project=project, location=region, retention_days=days), after_services)
if settings.batch.enabled:
    # What is deleted is gone at once: pods replace checkpoints every minute, which would be stored and billed for another week, and a
    # document that is past its retention must not be readable.
    days = settings.batch.retention_days
    documents = BucketArgs(project=project, location=region, retention_days=days, soft_delete_seconds=0)
    batches = Bucket("batches", documents, after_services)
first: list[pulumi.Resource] = [one for one in (services, results, batches) if one is not None]
on_google = ResourceOptions(provider=google, depends_on=first)

# The cluster: this stack's, one that no stack manages, or another stack's.
cluster: Cluster | ExistingCluster
if results is not None:
    number = services.project_number()
    if vpc.existing is None:
        ranges = NetworkArgs(
            region=region, node_cidr=vpc.node_cidr, pod_cidr=vpc.pod_cidr, service_cidr=vpc.service_cidr
        )
        network = Network("network", ranges, on_google)
    else:
        owner = vpc.existing.project or project
        network = ExistingNetwork(project=owner, region=region, names=vpc.existing, pod_cidr=vpc.pod_cidr)
    before_cluster = [*first]
    if settings.makes_proxy_only_subnet:
        ports = (*settings.ports, EPP_EXT_PROC_PORT)
        proxies = ProxyOnlySubnetArgs(network=network, cidr=vpc.proxy_only.cidr, ports=ports)
        before_cluster.append(ProxyOnlySubnet("proxies", proxies, on_google))
    pulls = ImageRegistryArgs(project=project, location=region, account=settings.registry, project_number=number)
    images = ImageRegistry("images", pulls, on_google)
    nodes = NodeIdentity("nodes", NodeIdentityArgs(project=project, images=images), on_google)
    autopilot = ClusterArgs(project=project, location=region, network=network, nodes=nodes, cluster=settings.cluster)
    cluster = own = Cluster("cluster", autopilot, ResourceOptions(provider=google, depends_on=before_cluster))
    keda_version = KEDA_VERSION if settings.makes_keda else ""
    known = own.outputs(
        project_number=number, images=images, results=results, ranges=connections.ranges, keda=keda_version
    )
    if settings.budget is not None:
        Budget("budget", BudgetArgs(project=project, project_number=number, budget=settings.budget), on_google)
else:
    if settings.platform.kubeconfig is not None:
        known = cluster_of_kubeconfig(settings.platform, project, region, services.project_number())
    else:
        needs = Needs(proxy_only_subnet=settings.gateway.enabled, keda=settings.scales_by_keda)
        known = cluster_of_stack(settings.platform.stack or "", project, region, settings.namespace, needs)
    cluster = ExistingCluster("cluster", ExistingClusterArgs(cluster=known), on_google)

# What pods may read and write in Google Cloud, and the gateway's name.
caches: dict[str, compile_cache.KeptCache] = {}
if settings.server.compile_cache.enabled:
    # Its contents can be computed again. Objects do not expire by age: otherwise a serving pod could replace what another pod stored before
    # it served.
    compiled = Bucket("caches", BucketArgs(project=project, location=region, force_destroy=True), on_google)
    caches = compile_cache.kept_caches(settings, compiled.name)
grants = WorkloadAccessArgs(
    project=project,
    project_number=known.project_number,
    workload_pool=known.workload_pool,
    namespace=settings.namespace,
    secret_readers=google_cloud_needs.secret_readers(settings),
    results_bucket=known.results_bucket if settings.benchmark.enabled else None,
    batch_bucket=None if batches is None else batches.name,
    compile_caches=tuple(caches.values()),
    keda_reads_metrics=settings.keda_reads_metrics,
    dataset_object=google_cloud_needs.dataset_object(settings),
)
access = WorkloadAccess("access", grants, on_google)
if settings.gateway.enabled and settings.gateway.hostname is not None:
    subnet = None if network is None else network.subnetwork
    named = GatewayNameArgs(location=region, gateway=settings.gateway, subnet=subnet)
    host = GatewayName("gateway-name", named, on_google)

# The cluster's objects. Pods start only after their namespace's quota and network policies exist.
on_cluster = ResourceOptions(provider=cluster.kubernetes, depends_on=[access])
quota = NamespaceArgs(name=settings.namespace, gpu_quota=settings.gpu_ceiling, pod_security=connections.pod_security)
namespace = Namespace("namespace", quota, on_cluster)
allowed = NetworkPoliciesArgs(namespace=namespace.name, traffic=connections, ranges=known.ranges)
policies = NetworkPolicies("network-policies", allowed, on_cluster)
in_namespace = ResourceOptions.merge(on_cluster, ResourceOptions(depends_on=[namespace, policies]))


def after(*needed: pulumi.Resource | None) -> ResourceOptions:
    """In the namespace, after what is given, too."""
    return ResourceOptions.merge(in_namespace, ResourceOptions(depends_on=[one for one in needed if one is not None]))


ladder = trial = router = gateway = keda = dashboard = None
release = WeightsArgs(
    namespace=namespace.name,
    image=known.image(WRITER_IMAGE),
    model=settings.serving.model,
    zones=settings.zones,
    volume=settings.weights,
    class_prefix=settings.namespace,
    hf_token=settings.hf_token_secret or secrets.hf_token,
    disk_labels=settings.labels,
)
weights = Weights("weights", release, in_namespace)
if settings.spending is not None:
    # Not after the servers: a renewed limit must reach the guard while the update waits for paused servers.
    limit = SpendingGuardArgs(
        namespace=settings.namespace,
        image=known.image(small_pod.IMAGE),
        traffic=connections,
        ranges=known.ranges,
        spending=settings.spending,
        rates=rates(settings),
        placement=settings.placement,
    )
    SpendingGuard("spending", limit, in_namespace)
if isinstance(settings.capacity, Ladder):
    modes = CapacityLadderArgs(
        namespace=settings.namespace,
        ladder=settings.capacity,
        placement=settings.placement,
        long_notice=settings.has_long_notice,
        returns=settings.returns,
    )
    # After the weights: GKE may install ComputeClass long after the cluster.
    ladder = CapacityLadder("ladder", modes, after(weights))
account = compile_cache.server_account(settings)
servers = ServerArgs(
    **server_arguments(settings),
    namespace=namespace.name,
    image=known.image(settings.serving.image.reference),
    weights=weights.mount,
    hf_token=weights.token,
    api_key=settings.api_key_secret or secrets.api_key,
    compile_cache=caches.get(account),
)
server = Server("server", servers, after(ladder))
if settings.makes_keda:
    keda = Keda("keda", KedaArgs(ranges=connections.ranges), on_cluster)
if (policy := scaling_policy(settings)) is not None:
    scaled = AutoscalingArgs(server=server, policy=policy, project=project)
    Autoscaling("autoscaling", scaled, after(keda))
if canary is not None:
    # Separate resources: adding or removing them changes nothing of the servers.
    mount, its_account = weights.mount, compile_cache.server_account(canary)
    if (ending := weights_ending(settings)) is not None:
        volume, model = settings.weights.model_copy(update={"name_ending": ending}), canary.serving.model
        other = replace(release, model=model, volume=volume, hf_token=weights.token, creates_account=False)
        mount = Weights("weights-canary", other, in_namespace).mount
    candidates = replace(
        servers,
        **server_arguments(canary),
        image=known.image(canary.serving.image.reference),
        weights=mount,
        api_key=server.key,
        compile_cache=caches.get(its_account),
        creates_account=its_account != account,
    )
    trial = Server("server-canary", candidates, after(ladder))
if (routing := router_needs(settings)) is not None:
    router = Router("router", RouterArgs(server=server, image=known.image(HAPROXY_IMAGE), **routing), in_namespace)
if settings.gateway.enabled:
    entrance = GatewayArgs(
        server=server,
        canary=None if settings.canary_pool is None else trial,
        canary_weight=settings.canary_weight,
        picks=settings.has_picker,
        router=router,
        gateway=settings.gateway,
        address=None if host is None else host.address_name,
        certificate=None if host is None else host.certificate_name,
    )
    # A route to routers that do not run yet would answer 503.
    gateway = Gateway("gateway", entrance, after(router))
endpoint = (gateway or router or server).endpoint
if settings.benchmark.enabled:
    run = measurement(settings) if settings.benchmark.run_on_update else None
    clients = BenchmarkArgs(server=server, endpoint=endpoint, results_bucket=known.results_bucket, measurement=run)
    Benchmark("benchmark", clients, in_namespace)
if settings.batch.enabled:
    # Of its pods, whose Job `fleet batch run` makes.
    names.service_account("batch-account", names.BATCH_ACCOUNT, namespace.name, in_namespace)

# Cloud Monitoring.
numbers = figures.figures(settings)
signals = watched.signals(settings, numbers)
if settings.monitoring.enabled:
    scrapes = MonitoringArgs(
        server=server,
        canary=trial,
        gateway=gateway,
        router=router is not None,
        signals=signals,
        interval_seconds=settings.monitoring.interval_seconds,
    )
    # Without servers at the start, KEDA's pods are the first that have a node.
    Monitoring("monitoring", scrapes, after(keda if servers.starts_empty else None))
if settings.monitoring.has_dashboard:
    dashboard = Dashboard("dashboard", DashboardArgs(project=project, signals=signals), on_google)
    pulumi.export("dashboard", dashboard.url)
if settings.monitoring.alerts is not None:
    messages = AlertingArgs(
        signals=signals,
        alerts=settings.monitoring.alerts,
        secrets=secrets,
        user_labels=settings.google_labels,
        dashboard_url=None if dashboard is None else dashboard.url,
    )
    Alerting("alerting", messages, on_google)
if settings.owns_platform:
    whole = DeletionProtectionArgs(enabled=settings.cluster.deletion_protection, covers=everything)
    DeletionProtection("deletion-protection", whole)

# Outputs for people, for `fleet` and for other stacks.
shown = known.exports(joinable=settings.owns_platform)
outputs = {**readme.described(settings, numbers), **shown, "endpoint": endpoint}
for name, value in outputs.items():
    pulumi.export(name, value)
if batches is not None:
    pulumi.export("batchBucket", batches.name)
if host is not None and gateway is not None:
    pulumi.export("dns", host.dns_records(gateway.address))
pulumi.export("kubeconfig", pulumi.Output.secret(known.kubeconfig))
pulumi.export("readme", pulumi.Output.all(**outputs).apply(readme.filled))
