"""A vLLM fleet on GKE Autopilot: the whole stack on one page, from settings to components to exports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pulumi
from pulumi import ResourceOptions

from facts.names import KEDA_VERSION
from facts.signals.catalogue import catalogue
from infra.capacity import CalendarReservation, CalendarReservationArgs
from infra.compile_cache_bucket import CompileCacheBucket, CompileCacheBucketArgs
from infra.deletion_protection import DeletionProtection, DeletionProtectionArgs
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
from settings.checks.declarations import declarations
from settings.derived.canary import weights_ending
from settings.derived.compile_cache import cache_key, server_account
from settings.derived.figures import figures
from settings.derived.google_cloud_needs import dataset_object, required_apis, secret_readers
from settings.derived.measurement import measurement
from settings.derived.readme import filled
from settings.derived.scaling import scaling_policy
from settings.derived.traffic import traffic
from settings.derived.watched import watched
from settings.load import load
from settings.sections.capacity import Calendar, Ladder, ladder_class
from workloads.benchmark.benchmark import Benchmark, BenchmarkArgs
from workloads.capacity_ladder import CapacityLadder, CapacityLadderArgs
from workloads.gateway.gateway import Gateway, GatewayArgs
from workloads.monitoring import Monitoring, MonitoringArgs
from workloads.namespace import Namespace, NamespaceArgs
from workloads.server.compile_cache import KeptCache
from workloads.server.server import Server, ServerArgs
from workloads.space import Space
from workloads.weights.weights import Weights, WeightsArgs

settings, secrets = load()
project, zones, apis = settings.project, settings.zones, required_apis(settings)
machine, capacity = settings.machine, settings.capacity
numbers, policy = figures(settings), scaling_policy(settings)
labels = labels_of(settings.stack, settings.labels)
place = Place(project=project, region=settings.region, name_prefix=settings.stack, labels=labels)

built: list[pulumi.Resource] = []  # what the deletion protection covers

# Google Cloud: this stack's platform, another stack's, or an existing cluster.
if settings.owns_platform:
    own = OwnPlatformArgs(
        place=place,
        namespace=settings.namespace,
        apis=apis,
        network=settings.network,
        proxy_only_subnet=settings.proxy_only_subnet,
        cluster=settings.cluster,
        quick_autoscaling=policy is not None and policy.mechanism == "gke",
        results=settings.results,
        registry=settings.registry,
        budget=settings.budget,
        keda=KEDA_VERSION if settings.makes_keda else None,
    )
    made = OwnPlatform("platform", own)
    services, kubernetes, platform = made.services, made.kubernetes, made.outputs
    built.append(made)
elif settings.platform.kubeconfig is not None:
    given = GivenPlatformArgs(
        kubeconfig=Path(settings.platform.kubeconfig).absolute(),  # the engine starts a program in the project's folder
        place=place,
        namespace=settings.namespace,
        image_prefix=settings.platform.image_prefix,
        results_bucket=settings.platform.results_bucket,
        apis=apis,
    )
    found = GivenPlatform("platform", given)
    services, kubernetes, platform = found.services, found.kubernetes, found.outputs
else:
    other = SharedPlatformArgs(
        stack=settings.platform.stack or "",
        place=place,
        namespace=settings.namespace,
        proxy_only_subnet=settings.gateway.enabled,
        keda=settings.scales_by_keda,
        apis=apis,
    )
    joined = SharedPlatform("platform", other)
    services, kubernetes, platform = joined.services, joined.kubernetes, joined.outputs
after_services = ResourceOptions(depends_on=[services])
kept: dict[str, KeptCache] = {}
kept_by: dict[str, CompileCacheGrant] = {}
trial = settings.as_canary
if settings.server.compile_cache.enabled:
    caches = CompileCacheBucket("compile-caches", CompileCacheBucketArgs(place=place), after_services)
    built.append(caches)
    for one in filter(None, (settings, trial)):
        key, account = cache_key(one) or "", server_account(one)
        kept[account] = KeptCache(bucket=caches.bucket_name, key=key)
        kept_by[account] = CompileCacheGrant(bucket=caches.bucket_name, key=key, account=account)
grants = WorkloadAccessArgs(
    project=project,
    project_number=platform.project_number,
    workload_pool=platform.workload_pool,
    namespace=settings.namespace,
    secret_readers=secret_readers(settings),
    results_bucket=platform.results_bucket if settings.benchmark.enabled else None,
    compile_caches=tuple(kept_by.values()),
    keda=settings.makes_keda,
    dataset_object=dataset_object(settings),
)
access = WorkloadAccess("access", grants, after_services)
if isinstance(capacity, Calendar) and capacity.create is not None:
    window = CalendarReservationArgs(place=place, zone=zones[0], calendar=capacity, machine_type=machine.type)
    built.append(CalendarReservation("calendar", window, after_services))

# Kubernetes: one provider, from the platform's cluster, inherited by every component below.
on_cluster = ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=[access])
marks, model = settings.object_labels, settings.serving.model
guards = NamespaceArgs(
    name=settings.namespace,
    traffic=traffic(settings),
    ranges=None if settings.owns_platform else platform.ranges,
    gpus=settings.gpu_ceiling,
    labels=marks,
)
namespace = Namespace("namespace", guards, on_cluster)
# Pods start only after their service account, quota and network policies exist.
guarded = ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=[access, namespace])
space = Space(namespace=namespace.name, labels=marks, image_prefix=platform.image_prefix)
release = WeightsArgs(
    space=space,
    model=model,
    zones=zones,
    volume=settings.weights,
    class_prefix=settings.namespace,
    hf_token=settings.hf_token_secret or secrets.hf_token,
    disk_labels=settings.labels,
)
weights = Weights("weights", release, guarded)
built += [access, namespace, weights]
if settings.spending is not None:
    # Does not depend on the servers: a renewed limit must reach the guard while the update waits for paused servers.
    from settings.derived.spending import rates
    from workloads.spending.spending import SpendingGuard, SpendingGuardArgs

    grace = settings.placement.grace_seconds
    limit = SpendingGuardArgs(
        name=settings.namespace,
        space=space,
        traffic=guards.traffic,
        ranges=guards.ranges,
        spending=settings.spending,
        rates=rates(settings),
        grace_seconds=grace,
    )
    built.append(SpendingGuard("spending", limit, guarded))
placed = guarded
if isinstance(capacity, Ladder):
    name = ladder_class(settings.namespace, machine)
    rungs = CapacityLadderArgs(class_name=name, ladder=capacity, zones=zones, machine=machine, labels=marks)
    # After the weights: GKE may install ComputeClass long after the cluster, and the download gives it time.
    after_weights = ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=[access, weights])
    ladder = CapacityLadder("ladder", rungs, after_weights)
    built.append(ladder)
    placed = ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=[access, namespace, ladder])
replica = ServerArgs(
    space=space,
    name=settings.server.name,
    replicas=settings.own_replicas,
    engine=settings.serving.engine,
    model=model,
    placement=settings.placement,
    image=settings.serving.image,
    weights=weights.mount,
    hf_token=weights.token,
    hf_token_version=weights.token_version,
    api_key=settings.api_key_secret or secrets.api_key,
    compile_cache=kept.get(server_account(settings)),
    service_account=server_account(settings),
    resources=settings.server.resources,
    startup_minutes=settings.server.startup_minutes,
    internal_load_balancer=settings.server.internal_load_balancer,
    annotations=declarations(settings),
    reasons=settings.server.reasons,
)
server = Server("server", replica, placed)
built.append(server)
scalers = [access, namespace]
if settings.makes_keda:
    from workloads.keda.keda import Keda, KedaArgs

    scalers.append(Keda("keda", KedaArgs(ranges=traffic(settings).ranges, labels=marks), on_cluster))
    built.append(scalers[-1])
if policy is not None:
    from workloads.autoscaling import Autoscaling, AutoscalingArgs

    scaled = AutoscalingArgs(space=space, server=server, policy=policy, project=project)
    after_scalers = ResourceOptions(providers={"kubernetes": kubernetes}, depends_on=scalers)
    built.append(Autoscaling("autoscaling", scaled, after_scalers))
canary: Server | None = None
if trial is not None:
    # Separate resources for the canary: adding or removing it changes nothing of the servers.
    mount = weights.mount
    if ending := weights_ending(settings):
        volume = settings.weights.model_copy(update={"name_ending": ending})
        second = replace(release, model=trial.serving.model, volume=volume, beside=weights)
        weights_canary = Weights("weights-canary", second, guarded)
        built.append(weights_canary)
        mount = weights_canary.mount
    tried = replace(
        replica,
        name=trial.server.name,
        replicas=trial.own_replicas,
        engine=trial.serving.engine,
        model=trial.serving.model,
        placement=trial.placement,
        image=trial.serving.image,
        weights=mount,
        compile_cache=kept.get(server_account(trial)),
        service_account=server_account(trial),
        resources=trial.server.resources,
        internal_load_balancer=False,
        annotations=declarations(trial),
        beside=server,
    )
    canary = Server("server-canary", tried, placed)
    built.append(canary)
gateway: Gateway | None = None
if settings.gateway.enabled:
    gateway = Gateway("gateway", GatewayArgs(space=space, server=server, gateway=settings.gateway), guarded)
    built.append(gateway)
endpoint = server.endpoint if gateway is None else gateway.endpoint
if settings.benchmark.enabled:
    clients = BenchmarkArgs(
        space=space,
        server=server,
        endpoint=endpoint,
        results_bucket=platform.results_bucket,
        measurement=measurement(settings),
        run_on_update=settings.benchmark.run_on_update,
    )
    built.append(Benchmark("benchmark", clients, guarded))
if settings.monitoring.enabled:
    signals = catalogue(watched(settings, numbers))
    scrapes = MonitoringArgs(
        space=space,
        server=server,
        also=() if canary is None else (canary,),
        gateway=gateway,
        signals=signals,
        monitoring=settings.monitoring,
    )
    built.append(Monitoring("monitoring", scrapes, guarded))
    dashboard_url: pulumi.Output[str] | None = None
    # Imported on use: other stacks' previews do not load these modules.
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
    "endpoint": endpoint,
    "clusterName": platform.cluster_name,
    "platform": platform.export(),
    "modelRevision": model.revision,
    "profile": settings.serving.profile.name,
    **numbers.exports(),
}
for name, value in outputs.items():
    pulumi.export(name, value)
pulumi.export("kubeconfig", pulumi.Output.secret(platform.kubeconfig))
page = Path(__file__).with_name("Pulumi.README.md").read_text(encoding="utf-8")
pulumi.export("readme", pulumi.Output.all(**outputs).apply(lambda known: filled(page, known)))
