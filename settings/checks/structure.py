"""Checks of a stack's settings against the limits of Google Cloud and GKE, before anything is created.

The article's lessons are in `settings/checks/lessons.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from facts.capacity import FLEX_START_MAX_SECONDS, LEAST_USEFUL_SECONDS, MAX_GRACE_SECONDS
from facts.cost import bill, node_price, priced_items
from facts.engines import EXIT_SECONDS, LEAST_DRAIN_SECONDS
from facts.finding import Finding
from facts.gke_releases import LONG_NOTICE
from facts.prices import OLD_AFTER_DAYS, published, today
from facts.regions import regions, zones
from facts.texts import nearest
from facts.time_to_serve import step_seconds, time_to_serve
from settings.checks.batch import batch_problems
from settings.checks.benchmark import benchmark_problems
from settings.checks.empty import without_effect
from settings.checks.endpoint import endpoint_problems
from settings.checks.gateway import gateway_problems
from settings.checks.machine import machine_problems, zone_for
from settings.checks.model import model_problems, size_gb
from settings.checks.monitoring import monitoring_problems
from settings.checks.platform import platform_problems
from settings.checks.ranks import rank_problems
from settings.checks.shape import split_problems
from settings.checks.spending import spending_problems
from settings.checks.volume import volume_problems
from settings.derived.drain import drain, mean_request_seconds
from settings.derived.figures import fleet_shape
from settings.derived.replica_start import replica_start
from settings.sections.capacity import FlexStart, Ladder, Reservation, ladder_class
from settings.sections.section import NAMESPACE, key
from settings.sections.server import LEAST_EPHEMERAL_STORAGE_GIB

if TYPE_CHECKING:
    from settings.stack import Settings

MAX_LABEL = 63
"""Maximum length of a label's value. Source: Kubernetes, labels and selectors."""
LOW_SHARE = 0.5
"""Share of the list price below which a stated price is doubted. Assumed: larger discounts are rare."""


def structural_problems(settings: Settings) -> tuple[Finding, ...]:
    """Every limit that these settings exceed, in the order of the stack file's sections."""
    return (
        *without_effect(settings),
        *_location(settings),
        *_platform(settings),
        *(platform_problems(settings) if settings.owns_platform else ()),
        *server_problems(settings),
        *_scaling(settings),
        *_secrets(settings),
        *endpoint_problems(settings),
        *_exposure(settings),
        *gateway_problems(settings),
        *_prices(settings),
        *_node_price(settings),
        *spending_problems(settings),
        *benchmark_problems(settings),
        *batch_problems(settings),
        *monitoring_problems(settings),
    )


def server_problems(settings: Settings) -> tuple[Finding, ...]:
    """The limits of the servers, which also apply to a canary."""
    return (
        *machine_problems(settings),
        *_capacity(settings),
        *_weights(settings),
        *model_problems(settings),
        *_server(settings),
        *_shutdown(settings),
    )


def _location(settings: Settings) -> Iterator[Finding]:
    if settings.region not in (known := regions()):
        yield Finding(
            id="no-such-region",
            subject="gcp:region",
            found=settings.region,
            allowed=", ".join(sorted(known)),
            why="Google Cloud has no region of that name (November 2026), and the price list has none",
            write=f"gcp:region: {nearest(settings.region, sorted(known)) or 'europe-west4'}",
        )
    elif wrong := [
        zone for zone in settings.zones if zone.startswith(f"{settings.region}-") and zone not in zones(settings.region)
    ]:
        yield Finding(
            id="no-such-zone",
            subject=key("zones"),
            found=wrong,
            allowed=", ".join(zones(settings.region)),
            why=f"{settings.region} has no zone of that name, so no node or disk can be created there",
            write=f'zones: ["{zone_for(settings.machine, settings.region)}"]',
        )
    for zone in settings.zones:
        if settings.region in known and not zone.startswith(f"{settings.region}-"):
            yield Finding(
                id="zone-outside-region",
                subject=key("zones"),
                found=zone,
                allowed=f"zones of {settings.region}",
                why="the cluster, its subnet and the image registry are in gcp:region",
                write=f'zones: ["{zone_for(settings.machine, settings.region)}"], or gcp:region: {zone.rpartition("-")[0]}',
            )
    if len(set(settings.zones)) != len(settings.zones):
        yield Finding(
            id="zone-twice",
            subject=key("zones"),
            found=list(settings.zones),
            allowed="each zone once",
            why="each zone gets one copy of the weights volume",
            write=str(sorted(set(settings.zones))),
        )


def _platform(settings: Settings) -> Iterator[Finding]:
    platform = settings.platform
    if platform.stack is not None and platform.kubeconfig is not None:
        yield Finding(
            id="platform-twice",
            subject=key("platform.kubeconfig"),
            found=platform.kubeconfig,
            allowed="platform.stack or platform.kubeconfig",
            why="each names a cluster, and a server joins only one",
            write="remove one of the two",
        )
    for given, name in ((platform.image_prefix, "imagePrefix"), (platform.results_bucket, "resultsBucket")):
        if given is not None and platform.kubeconfig is None:
            yield Finding(
                id="platform-of-nobody",
                subject=key(f"platform.{name}"),
                found=given,
                allowed="left out without platform.kubeconfig",
                why="this stack, or the stack it joins, creates its own",
                write=f"remove {name}",
            )
    if settings.owns_platform:
        return
    whose = platform.stack or "the cluster's owner"
    if settings.benchmark.enabled and platform.kubeconfig is not None and platform.results_bucket is None:
        yield Finding(
            id="benchmark-without-bucket",
            subject=key("platform.resultsBucket"),
            found=None,
            allowed="the name of your bucket",
            why="the benchmark's pods write their results to it, and this stack creates none",
            write="resultsBucket: MY-BUCKET",
        )
    for section in ("network", "cluster", "budget", "registry", "results"):
        if section in settings.model_fields_set:
            yield Finding(
                id="platform-is-elsewhere",
                subject=key(section),
                found="(set)",
                allowed="left out on another stack's cluster",
                why=f"network, cluster, budget, images and bucket belong to {whose}; here they have no effect",
                write=f"remove {section}" + (", or set it in the platform's own stack file" if platform.stack else ""),
            )
    if settings.gateway.enabled:
        yield Finding(
            id="platform-needs-proxy-only",
            subject=key("gateway.enabled"),
            found=True,
            allowed="true, if the platform has a proxy-only subnet",
            why="without it the Gateway stays at PROGRAMMED False without a message; this stack cannot check the other's network",
            write="network: {proxyOnly: {enabled: true}} in the platform's stack file"
            if platform.stack
            else "nothing, if `gcloud compute networks subnets list --filter=purpose=REGIONAL_MANAGED_PROXY` lists a subnet",
            severity="warning" if platform.stack else "note",
        )


def _capacity(settings: Settings) -> Iterator[Finding]:
    capacity = settings.capacity
    made = ladder_class(settings.namespace, settings.machine)
    if isinstance(capacity, Ladder) and len(made) > MAX_LABEL:
        yield Finding(
            id="namespace-too-long",
            subject=key("namespace"),
            found=settings.namespace,
            allowed=f"up to {MAX_LABEL - len(made) + len(settings.namespace)} characters with capacity.mode ladder",
            why=f"the ladder's nodes have the name of its ComputeClass, {made}, as a label's value, limited to {MAX_LABEL} characters",
            write="a shorter namespace",
        )
    yield from _run_duration(settings)
    rungless = isinstance(capacity, Ladder) and capacity.reservation is None and capacity.flex_start_seconds is None
    if isinstance(capacity, Ladder) and rungless and not (capacity.spot and settings.has_long_notice):
        yield Finding(
            id="ladder-without-rungs",
            subject=key("capacity"),
            found="spot only" if capacity.spot else "nothing",
            allowed=f"reservation or flexStartSeconds; spot alone with GKE {LONG_NOTICE}, by cluster.minVersion",
            why="from that version on a class gives Spot a longer notice; before, a class of Spot alone is one more object that can fail",
            write="{mode: spot}" if capacity.spot else "{mode: ladder, flexStartSeconds: 604800, spot: true}",
        )
    if isinstance(capacity, Reservation) and capacity.nodes is not None and capacity.nodes < settings.nodes:
        yield Finding(
            id="reservation-too-small",
            subject=key("capacity.nodes"),
            found=capacity.nodes,
            allowed=f"{settings.nodes} or more ({_whose(settings)})",
            why="Autopilot uses nodes of the named reservation only, so the other pods stay Pending",
            write=f"nodes: {settings.nodes} and a reservation of that size, or server.{settings.server.size_key}: "
            f"{capacity.nodes * settings.machine.gpus // settings.gpus_per_replica - settings.canary_replicas}",
        )


def _run_duration(settings: Settings) -> Iterator[Finding]:
    """Whether a flex-start node lives long enough to be worth its start."""
    capacity = settings.capacity
    if isinstance(capacity, FlexStart):
        name, seconds = "runDurationSeconds", capacity.run_duration_seconds
    elif isinstance(capacity, Ladder) and capacity.flex_start_seconds is not None:
        name, seconds = "flexStartSeconds", capacity.flex_start_seconds
    else:
        return
    # The duration counts from the node's start.
    start = time_to_serve(replica_start(settings)).likely_seconds - step_seconds("gpu-node")
    least = ceil((start + LEAST_USEFUL_SECONDS) / 60) * 60
    if seconds < least:
        yield Finding(
            id="run-too-short",
            subject=key(f"capacity.{name}"),
            found=seconds,
            allowed=f"{least} to {FLEX_START_MAX_SECONDS}",
            why=f"a node is deleted {seconds / 60:.0f} minutes after its start, and its server needs about {start / 60:.0f} minutes before "
            "it serves: most of the price is paid for starts",
            write=f"{name}: {FLEX_START_MAX_SECONDS}, the maximum",
        )


def _whose(settings: Settings) -> str:
    return f"server.{settings.server.size_key}" + (" and rollout.canary.replicas" if settings.canary_replicas else "")


def _weights(settings: Settings) -> Iterator[Finding]:
    weights = settings.weights
    model = settings.serving.model.model_copy(update={"size_gb": size_gb(settings)})
    if (weights.source == "image") != (weights.image is not None):
        yield Finding(
            id="weights-image",
            subject=key("weights.image"),
            found=weights.image,
            allowed="the disk image with the weights, only with source: image",
            why="source: image creates the volume from that image; every other source downloads the weights",
            write="projects/PROJECT/global/images/NAME" if weights.image is None else "source: image, or remove image",
        )
    if not weights.has_volume:
        most = settings.replicas if settings.scales_by_batch else settings.server.fixed_replicas
        if most not in (0, 1):
            yield Finding(
                id="download-per-replica",
                subject=key("weights.source"),
                found="huggingface",
                allowed="hyperdisk, for more than one replica",
                why=f"each replica would download {model.size_gb:g} GB through Cloud NAT at every start; "
                "the article does so only with its single replica",
                write="hyperdisk",
            )
        least_gib = ceil(model.size_gb * 1e9 / 2**30) + LEAST_EPHEMERAL_STORAGE_GIB
        if settings.resources.ephemeral_storage_gib < least_gib:
            yield Finding(
                id="download-exceeds-disk",
                subject=key("server.resources.ephemeralStorageGib"),
                found=settings.resources.ephemeral_storage_gib,
                allowed=f"{least_gib} or more: {model.size_gb:g} GB of weights, and {LEAST_EPHEMERAL_STORAGE_GIB} GiB for the rest",
                why="with source: huggingface the pod writes the weights to its own disk; the kubelet evicts a pod above its limit, "
                "and the next pod downloads again",
                write=f"ephemeralStorageGib: {least_gib}, or weights: {{source: hyperdisk}}",
            )
        return
    yield from volume_problems(weights, model, readers=settings.nodes)


def _server(settings: Settings) -> Iterator[Finding]:
    server = settings.server
    resources = settings.resources
    if resources.shm_gib * 2 > resources.memory_gib:
        yield Finding(
            id="shm-takes-memory",
            subject=key("server.resources.shmGib"),
            found=resources.shm_gib,
            allowed=f"up to half of memoryGib ({resources.memory_gib // 2})",
            why="shared memory (/dev/shm) counts against the pod's memory, and the engines need the rest",
            write=f"shmGib: {resources.memory_gib // 4}",
        )
    yield from rank_problems(settings)
    yield from split_problems(settings)
    if server.replicas == "external" and server.scaling.mode == "none":
        yield Finding(
            id="replicas-elsewhere",
            subject=key("server.replicas"),
            found="external",
            allowed="a number, or external",
            why="replicas managed externally: price and throughput here are those of one replica",
            write="a number, if this program should manage replicas",
            severity="note",
        )
    if server.replicas == 0:
        yield Finding(
            id="paused",
            subject=key("server.replicas"),
            found=0,
            allowed="any number; 0 pauses",
            why="the fleet is paused: no server runs, the weights stay on their volume, and the residual cost continues",
            write="replicas: N to resume",
            severity="note",
        )


def _scaling(settings: Settings) -> Iterator[Finding]:
    if "scaling" in settings.server.model_fields_set:
        # Imported here because it loads the time zones, and few stacks need it.
        from settings.checks.scaling import scaling_problems

        yield from scaling_problems(settings)


def _secrets(settings: Settings) -> Iterator[Finding]:
    pairs = (
        ("weights.tokenSecret", settings.hf_token_secret, settings.has_hf_token, "hfToken"),
        ("server.apiKeySecret", settings.api_key_secret, settings.has_api_key, "apiKey"),
    )
    for path, named, given, name in pairs:
        if named is not None and given:
            yield Finding(
                id="secret-twice",
                subject=key(path),
                found=named.name,
                allowed=f"either this or the secret key {NAMESPACE}:{name}",
                why="two sources for one secret: which one applies would be undefined",
                write=f"pulumi config rm {NAMESPACE}:{name}, or remove {path}",
            )


def _exposure(settings: Settings) -> Iterator[Finding]:
    gateway, server = settings.gateway, settings.server
    if gateway.enabled and gateway.is_public and not settings.guards_v1_only:
        yield Finding(
            id="open-to-the-internet",
            subject=key("gateway.gatewayClass"),
            found=gateway.gateway_class,
            allowed="gke-l7-rilb, or the external class with an API key",
            why="without an API key vLLM accepts every request, so anyone on the internet could use your GPUs",
            write="server: {apiKeySecret: NAME-OF-A-SECRET}, or gatewayClass: gke-l7-rilb",
        )
    if settings.has_router:
        return  # routers serve /v1 only, and nothing else reaches the servers
    if settings.guards_v1_only and (server.internal_load_balancer or not gateway.enabled):
        who = "the whole VPC" if server.internal_load_balancer else "pods and namespaces labeled as clients"
        yield Finding(
            id="key-guards-v1-alone",
            subject=key("server.internalLoadBalancer" if server.internal_load_balancer else "gateway.enabled"),
            found=server.internal_load_balancer,
            allowed=f"this value, if {who} may use the server without the key; otherwise only a gateway",
            why=f"vLLM checks the key under /v1 only: {who} can call /invocations, /tokenize and /metrics without it",
            write="gateway: {enabled: true} without internalLoadBalancer, which routes /v1 only",
            severity="warning",
        )


def _shutdown(settings: Settings) -> Iterator[Finding]:
    timeout, engine = settings.server.engine.get("shutdownTimeoutSeconds"), settings.serving.engine
    grace, drain_seconds = settings.placement.grace_seconds, settings.server.drain_seconds
    planned = drain(grace, drain_seconds, settings.api_servers_of_a_stream)
    if drain_seconds is not None and drain_seconds + EXIT_SECONDS > grace:
        yield Finding(
            id="drain-above-grace",
            subject=key("server.drainSeconds"),
            found=drain_seconds,
            allowed=f"up to {max(0, grace - EXIT_SECONDS)} with this grace period",
            why=f"the pod is killed {grace} s after its end begins (capacity.graceSeconds), and vLLM needs {EXIT_SECONDS} s to exit",
            write="remove capacity.graceSeconds: it is then 600, GKE's maximum",
        )
    elif grace < (least := EXIT_SECONDS + LEAST_DRAIN_SECONDS):
        yield Finding(
            id="grace-below-exit",
            subject=key("capacity.graceSeconds"),
            found=grace,
            allowed=f"{least} to {MAX_GRACE_SECONDS}",
            why=f"vLLM needs {EXIT_SECONDS} s to exit: a pod killed sooner cuts every stream at each update, scale-in and drained node",
            write=f"remove capacity.graceSeconds: it is then {MAX_GRACE_SECONDS}, GKE's maximum",
        )
    elif planned.stream_seconds < (mean := mean_request_seconds()):
        cut = 1 - planned.stream_seconds / mean
        cause = "capacity.graceSeconds" if drain_seconds is None else "server.drainSeconds"
        yield Finding(
            id="drain-below-request",
            subject=key(cause),
            found=grace if drain_seconds is None else drain_seconds,
            allowed=f"this value, if your answers take less than {planned.stream_seconds} s",
            why=f"requests in flight have {planned.stream_seconds} s at each update, scale-in and drained node; of the record's, which "
            f"take {mean:g} s on average, about {cut:.0%} are cut",
            write=f"remove {cause}",
            severity="warning",
        )
    if timeout and settings.api_servers_of_a_stream > 1:
        yield Finding(
            id="shutdown-timeout-without-effect",
            subject=key("server.engine.shutdownTimeoutSeconds"),
            found=timeout,
            allowed="left out (null) with several API servers",
            why=f"vLLM stops its {engine.api_servers} API servers before the engines, which ends all streams; "
            "the pause before the stop signal drains requests instead",
            write="remove shutdownTimeoutSeconds, or apiServerCount: 1",
        )
    elif timeout is not None and drain_seconds is not None and planned.pre_stop_seconds + timeout != drain_seconds:
        yield Finding(
            id="shutdown-timeout-and-drain",
            subject=key("server.engine.shutdownTimeoutSeconds"),
            found=timeout,
            allowed=f"left out with server.drainSeconds: {drain_seconds}",
            why=f"requests would have {planned.pre_stop_seconds + timeout} s, with the {planned.pre_stop_seconds} s of pause before the "
            "stop signal: the server derives this timeout from drainSeconds",
            write="remove shutdownTimeoutSeconds, or server.drainSeconds",
        )
    elif timeout and timeout + planned.pre_stop_seconds + EXIT_SECONDS > grace:
        yield Finding(
            id="shutdown-timeout-above-grace",
            subject=key("server.engine.shutdownTimeoutSeconds"),
            found=timeout,
            allowed=f"up to {max(0, grace - planned.pre_stop_seconds - EXIT_SECONDS)} with this grace period",
            why=f"the pod is killed {grace} s after its termination begins, "
            f"including {planned.pre_stop_seconds} s of pause before the stop signal",
            write="remove shutdownTimeoutSeconds: the server then uses the longest that fits",
        )


def _node_price(settings: Settings) -> Iterator[Finding]:
    """A price of the nodes far below the list: after a slip of the point, neither ceiling nor limit is reached."""
    stated, machine = settings.capacity.usd_per_node_hour, settings.machine
    if stated is None:
        return
    listed = node_price(settings.placement.price_key, settings.region, machine) or next(
        iter(published(machine.type)), None
    )
    if listed is None or stated >= LOW_SHARE * listed.usd:
        return
    yield Finding(
        id="node-price-low",
        subject=key("capacity.usdPerNodeHour"),
        found=stated,
        allowed=f"{LOW_SHARE * listed.usd:,.2f} or more: half of the list price",
        why=f"the list price of {machine.type} ({listed.mode}, {listed.region}, {listed.date}) is ${listed.usd:,.2f}; the ceiling of the "
        "policies and the spending guard count what is stated, so a wrong price makes both act too late",
        write=f"usdPerNodeHour: {listed.usd:.2f}, or nothing if your contract says so",
        severity="warning",
    )


def _prices(settings: Settings) -> Iterator[Finding]:
    if old := bill(fleet_shape(settings)).old(today()):
        dates = sorted({item.price.date for item in old if item.price is not None})
        yield Finding(
            id="old-prices",
            subject=key("prices"),
            found=dates[0],
            allowed=f"list prices of the last {OLD_AFTER_DAYS} days, or your own prices",
            why=f"prices change, Spot prices up to twice a month; out of date: {', '.join(item.name for item in old)}",
            write="newer rows in facts/data/prices.csv (docs/google-cloud.md#prices), or your prices",
            severity="warning",
        )
    known = priced_items()
    for item in sorted(set(settings.prices) - set(known)):
        yield Finding(
            id="unknown-price",
            subject=key(f"prices.{item}"),
            found=settings.prices[item],
            allowed=", ".join(f"{id_} (USD per {unit})" for id_, unit in known.items()),
            why="no item of the bill has that name",
            write="one of the names above; the price of a node is capacity.usdPerNodeHour",
        )
