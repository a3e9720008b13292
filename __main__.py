"""A vLLM fleet on GKE Autopilot: the whole stack on one page, from settings to components to exports."""

from __future__ import annotations

import atexit
import gc
from pathlib import Path

import pulumi
from pulumi import ResourceOptions

from facts.names import KEDA_VERSION
from facts.signals.catalogue import catalogue
from infra.batch_bucket import BatchBucket, BatchBucketArgs
from infra.compile_cache_bucket import CompileCacheBucket, CompileCacheBucketArgs
from infra.deletion_protection import DeletionProtection, DeletionProtectionArgs
from infra.gateway_name import GatewayName, GatewayNameArgs
from infra.naming import Place, labels_of
from infra.platform import (
    GivenPlatform,
    GivenPlatformArgs,
    OwnPlatform,
    OwnPlatformArgs,
    SharedPlatform,
    SharedPlatformArgs,
)
from infra.workload_access import CompileCacheGrant, WorkloadAccess, WorkloadAccessArgs
from settings.derived.canary import weights_ending
from settings.derived.compile_cache import cache_key, server_account
from settings.derived.figures import figures
from settings.derived.google_cloud_needs import dataset_object, required_apis, secret_readers
from settings.derived.measurement import measurement
from settings.derived.readme import filled
from settings.derived.router import router_needs
from settings.derived.scaling import scaling_policy
from settings.derived.spending import rates
from settings.derived.traffic import traffic
from settings.derived.watched import watched
from settings.load import load
from settings.server_arguments import server_arguments
from workloads.server.compile_cache import KeptCache
from workloads.serving_stack import ServingStack, ServingStackArgs

# The SDKs' ten thousand classes live as long as the program: walking through them, again and again and once more at its end, takes a
# fifth of its processor time.
gc.set_threshold(100_000, 20, 50)
atexit.register(gc.freeze)

settings, secrets = load()
numbers, scaling, canary = figures(settings), scaling_policy(settings), settings.as_canary
labels = labels_of(settings.stack, settings.labels)
place = Place(project=settings.project, region=settings.region, name_prefix=settings.stack, labels=labels)
apis = required_apis(settings)

# The cluster: this stack's, an existing one, or another stack's.
platform: OwnPlatform | GivenPlatform | SharedPlatform
if settings.owns_platform:
    own = OwnPlatformArgs(
        place=place,
        namespace=settings.namespace,
        apis=apis,
        network=settings.network,
        proxy_only_subnet=settings.makes_proxy_only_subnet,
        server_ports=settings.ports,
        cluster=settings.cluster,
        results=settings.results,
        batch_retention_days=settings.batch.retention_days if settings.batch.enabled else None,
        registry=settings.registry,
        budget=settings.budget,
        keda=KEDA_VERSION if settings.makes_keda else None,
    )
    platform = OwnPlatform("platform", own)
elif settings.platform.kubeconfig is not None:
    given = GivenPlatformArgs(
        kubeconfig=Path(settings.platform.kubeconfig).absolute(),  # the engine starts a program in the project's folder
        place=place,
        namespace=settings.namespace,
        image_prefix=settings.platform.image_prefix,
        results_bucket=settings.platform.results_bucket,
        apis=apis,
    )
    platform = GivenPlatform("platform", given)
else:
    other = SharedPlatformArgs(
        stack=settings.platform.stack or "",
        place=place,
        namespace=settings.namespace,
        proxy_only_subnet=settings.gateway.enabled,
        keda=settings.scales_by_keda,
        apis=apis,
    )
    platform = SharedPlatform("platform", other)
joined = platform.outputs

# Google Cloud beside it: the gateway's name, compile caches, a bucket for batches on another's cluster, and what the pods may read and
# write.
after_services = ResourceOptions(depends_on=[platform.services])
built: list[pulumi.Resource] = [platform]
door: GatewayName | None = None
if settings.gateway.enabled and settings.gateway.hostname is not None:
    subnet = platform.nodes_link if isinstance(platform, OwnPlatform) else None
    named = GatewayNameArgs(place=place, gateway=settings.gateway, subnet=subnet)
    door = GatewayName("gateway-name", named, after_services)
    built.append(door)
caches: dict[str, CompileCacheGrant] = {}
if settings.server.compile_cache.enabled:
    bucket = CompileCacheBucket("compile-caches", CompileCacheBucketArgs(place=place), after_services)
    built.append(bucket)
    for release in filter(None, (settings, canary)):
        key, account = cache_key(release) or "", server_account(release)
        caches[account] = CompileCacheGrant(bucket=bucket.bucket_name, key=key, account=account)
batches: pulumi.Output[str] | None = None
if isinstance(platform, OwnPlatform):
    batches = platform.batch_bucket
elif settings.batch.enabled:
    documents = BatchBucketArgs(place=place, retention_days=settings.batch.retention_days)
    for_batches = BatchBucket("batches", documents, after_services)
    built.append(for_batches)
    batches = for_batches.bucket_name
grants = WorkloadAccessArgs(
    project=settings.project,
    project_number=joined.project_number,
    workload_pool=joined.workload_pool,
    namespace=settings.namespace,
    secret_readers=secret_readers(settings),
    results_bucket=joined.results_bucket if settings.benchmark.enabled else None,
    batch_bucket=batches,
    compile_caches=tuple(caches.values()),
    keda_reads_metrics=settings.keda_reads_metrics,
    dataset_object=dataset_object(settings),
)
access = WorkloadAccess("access", grants, after_services)
built.append(access)

# The cluster's objects: weights and servers in a namespace, and what guards, scales, tries, measures and watches them.
signals = catalogue(watched(settings, numbers))
parts = ServingStackArgs(
    namespace=settings.namespace,
    labels=settings.object_labels,
    image_prefix=joined.image_prefix,
    project=settings.project,
    traffic=traffic(settings),
    ranges=None if settings.owns_platform else joined.ranges,
    gpus=settings.gpu_ceiling,
    capacity=settings.capacity,
    long_notice=settings.has_long_notice,
    returns=settings.returns,
    zones=settings.zones,
    volume=settings.weights,
    disk_labels=settings.labels,
    hf_token=settings.hf_token_secret or secrets.hf_token,
    server=server_arguments(settings),
    api_key=settings.api_key_secret or secrets.api_key,
    compile_caches={name: KeptCache(bucket=cache.bucket, key=cache.key) for name, cache in caches.items()},
    canary=None if canary is None else server_arguments(canary),
    canary_pool=settings.canary_pool,
    canary_weight=settings.canary_weight,
    canary_weights=weights_ending(settings),
    scaling=scaling,
    keda=settings.makes_keda,
    gateway=settings.gateway if settings.gateway.enabled else None,
    gateway_address=None if door is None else door.address_name,
    gateway_certificate=None if door is None else door.certificate_name,
    picks=settings.has_picker,
    router=router_needs(settings),
    measurement=measurement(settings) if settings.benchmark.enabled else None,
    run_on_update=settings.benchmark.run_on_update,
    results_bucket=joined.results_bucket,
    monitoring=settings.monitoring if settings.monitoring.enabled else None,
    signals=signals,
    spending=settings.spending,
    rates=None if settings.spending is None else rates(settings),
)
on_cluster = ResourceOptions(providers={"kubernetes": platform.kubernetes}, depends_on=[access])
serving = ServingStack(parts, on_cluster)
built += serving.components

# Cloud Monitoring. Imported on use: other stacks' previews do not load these modules.
dashboard_url: pulumi.Output[str] | None = None
if settings.monitoring.has_dashboard:
    from infra.dashboard import Dashboard, DashboardArgs

    dashboard = Dashboard("dashboard", DashboardArgs(place=place, signals=signals), after_services)
    built.append(dashboard)
    dashboard_url = dashboard.url
    pulumi.export("dashboard", dashboard_url)
if settings.monitoring.alerts is not None:
    from infra.alerting import Alerting, AlertingArgs, ChannelSecrets

    told = AlertingArgs(
        place=place,
        signals=signals,
        channels=settings.monitoring.alerts.channels,
        secrets=ChannelSecrets(
            slack_token=secrets.slack_token,
            pagerduty_key=secrets.pagerduty_key,
            webhook_password=secrets.webhook_password,
        ),
        dashboard_url=dashboard_url,
        slos=settings.monitoring.alerts.slos,
    )
    built.append(Alerting("alerting", told, after_services))
if settings.owns_platform:
    whole = DeletionProtectionArgs(enabled=settings.cluster.deletion_protection, covers=built)
    DeletionProtection("deletion-protection", whole)

# Outputs for people and other stacks. Published figures carry their label; see docs/provenance.md.
outputs = {
    "stack": settings.stack,
    "namespace": settings.namespace,
    "server": settings.server.name,
    "endpoint": serving.endpoint,
    "clusterName": joined.cluster_name,
    "platform": joined.export(),
    "modelRevision": settings.serving.model.revision,
    "profile": settings.serving.profile.name,
    **numbers.exports(),
}
for name, value in outputs.items():
    pulumi.export(name, value)
if batches is not None:
    pulumi.export("batchBucket", batches)
if door is not None and serving.gateway is not None:
    pulumi.export("dns", door.dns_records(serving.gateway.address))
pulumi.export("kubeconfig", pulumi.Output.secret(joined.kubeconfig))
page = Path(__file__).with_name("Pulumi.README.md").read_text(encoding="utf-8")
pulumi.export("readme", pulumi.Output.all(**outputs).apply(lambda known: filled(page, known)))
