"""Checks of a stack's settings against the limits of Google Cloud and GKE, before anything is created.

The article's lessons are in `settings/checks/lessons.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from facts.capacity import FLEX_START_MAX_SECONDS, LEAST_USEFUL_SECONDS
from facts.cost import bill, node_price, priced_items
from facts.finding import Finding, Severity
from facts.gke_releases import LONG_NOTICE
from facts.node_room import LEAST_EPHEMERAL_STORAGE_GIB
from facts.prices import OLD_AFTER_DAYS, published, today
from facts.regions import regions, zones
from facts.texts import nearest
from facts.time_to_serve import step_seconds, time_to_serve
from settings.checks.batch import batch_problems
from settings.checks.benchmark import benchmark_problems
from settings.checks.empty import without_effect
from settings.checks.endpoint import endpoint_problems
from settings.checks.gateway import gateway_problems
from settings.checks.machine import machine_problems
from settings.checks.model import model_problems, size_gb
from settings.checks.monitoring import monitoring_problems
from settings.checks.platform import platform_problems
from settings.checks.ranks import rank_problems
from settings.checks.shape import split_problems
from settings.checks.spending import spending_problems
from settings.checks.unused import unused
from settings.checks.volume import volume_problems
from settings.derived.drain import drain, mean_request_seconds
from settings.derived.figures import fleet_shape
from settings.derived.replica_start import replica_start
from settings.row import Row
from settings.sections.capacity import ComputeClassMode, FlexStart, Reservation, compute_class_name
from settings.sections.section import NAMESPACE

if TYPE_CHECKING:
    from settings.stack import Settings

MAX_LABEL = 63
"""Maximum length of a label's value. Source: Kubernetes, labels and selectors."""
LOW_SHARE = 0.5
"""Share of the list price below which a stated price is doubted. Assumed: larger discounts are rare."""
_NO_REGION = Row("no-such-region", "Google Cloud has no such region (November 2026)", "gcp:region: one of these")
_NO_ZONE = Row(
    "no-such-zone", "the region has no such zone, so no node or disk can be created there", "zones of the region"
)
_ELSEWHERE = Row(
    "zone-outside-region",
    "the cluster, its subnet and the image registry are in gcp:region",
    "zones of gcp:region, or the zone's region as gcp:region",
)
_TWO_PLATFORMS = Row("platform-twice", "each names a cluster, and a server joins only one", "remove one of the two")
_NO_BUCKET = Row(
    "benchmark-without-bucket",
    "the benchmark's pods write their results to it, and this stack creates none",
    "platform: {resultsBucket: MY-BUCKET}",
)
_NO_PROXIES = Row(
    "platform-needs-proxy-only",
    "without it the Gateway stays at PROGRAMMED False without a message, and this stack cannot check another's network",
    "network: {proxyOnly: {enabled: true}} in the platform's stack file, or nothing if `gcloud compute networks subnets list "
    "--filter=purpose=REGIONAL_MANAGED_PROXY` lists a subnet",
)
_LONG_NAMESPACE = Row(
    "namespace-too-long",
    "nodes of a ComputeClass have its name as a label's value",
    "a shorter namespace",
)
_SHORT_RUN = Row(
    "run-too-short",
    "a node is deleted so soon after its server begins to serve that most of the price is paid for starts",
    f"{FLEX_START_MAX_SECONDS}, the maximum",
)
_NO_PRIORITIES = Row(
    "compute-class-without-priorities",
    "a class of Spot alone is worth its object for the longer notice that newer versions give",
    "{mode: spot}, or another priority",
)
_SMALL_RESERVATION = Row(
    "reservation-too-small",
    "Autopilot uses nodes of the named reservation only, so the other pods stay Pending",
    "a reservation that holds all, or fewer replicas",
)
_IMAGE = Row(
    "weights-image",
    "source: image creates the volume from that image; every other source downloads the weights",
    "image: projects/PROJECT/global/images/NAME with source: image, or neither",
)
_DOWNLOADS = Row(
    "download-per-replica",
    "each replica would download the model through Cloud NAT at every start; the article does so only with its single replica",
    "source: hyperdisk",
)
_FULL_DISK = Row(
    "download-exceeds-disk",
    "the pod writes the weights to its own disk; the kubelet evicts a pod above its limit, and the next pod downloads again",
    "that ephemeralStorageGib, or weights: {source: hyperdisk}",
)
_TWO_SECRETS = Row("secret-twice", "with two sources it would be undefined which one applies", "remove one of the two")
_OPEN = Row(
    "open-to-the-internet",
    "without an API key vLLM accepts every request, so anyone on the internet could use your GPUs",
    "server: {apiKeySecret: NAME-OF-A-SECRET}, or gatewayClass: gke-l7-rilb",
)
_V1_ONLY = Row(
    "key-guards-v1-alone",
    "vLLM checks the key under /v1 only: /invocations, /tokenize and /metrics answer without it",
    "gateway: {enabled: true} without internalLoadBalancer, which routes /v1 only",
    "warning",
)
_SHORT_DRAIN = Row(
    "drain-below-request",
    "longer requests are cut at each update, scale-in and drained node, of the record's mean request too",
    "remove it, if your answers take longer",
    "warning",
)
_LOW_PRICE = Row(
    "node-price-low",
    "the ceiling of the policies and the spending guard count what is stated, so a wrong price makes both act too late",
    "the list price, or nothing if your contract says so",
    "warning",
)
_OLD_PRICES = Row(
    "old-prices",
    "prices change, Spot prices up to twice a month",
    "newer rows in facts/data/prices.csv (docs/google-cloud.md#prices), or your prices",
    "warning",
)
_NO_ITEM = Row(
    "unknown-price",
    "no item of the bill has that name",
    "one of these names; the price of a node is capacity.usdPerNodeHour",
)


def structural_problems(settings: Settings) -> tuple[Finding, ...]:
    """Every limit that these settings exceed, in the order of the stack file's sections."""
    return (
        *without_effect(settings),
        *unused(settings),
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
        *rank_problems(settings),
        *split_problems(settings),
        *_shutdown(settings),
    )


def _location(settings: Settings) -> Iterator[Finding]:
    region, known = settings.region, sorted(regions())
    if region not in known:
        near = nearest(region, known)
        yield _NO_REGION(
            "gcp:region", region, f"{near}, or another of {', '.join(known)}" if near else ", ".join(known)
        )
        return
    inside = [zone for zone in settings.zones if zone.startswith(f"{region}-")]
    if wrong := [zone for zone in inside if zone not in zones(region)]:
        yield _NO_ZONE("zones", wrong, ", ".join(zones(region)))
    if outside := [zone for zone in settings.zones if zone not in inside]:
        yield _ELSEWHERE("zones", outside, ", ".join(zones(region)))


def _platform(settings: Settings) -> Iterator[Finding]:
    platform = settings.platform
    if platform.stack is not None and platform.kubeconfig is not None:
        yield _TWO_PLATFORMS("platform.kubeconfig", platform.kubeconfig, "platform.stack or platform.kubeconfig")
    if settings.owns_platform:
        return
    if settings.benchmark.enabled and platform.kubeconfig is not None and platform.results_bucket is None:
        yield _NO_BUCKET("platform.resultsBucket", None, "the name of your bucket")
    if settings.gateway.enabled:
        severity: Severity = "warning" if platform.stack else "note"
        yield _NO_PROXIES("gateway.enabled", True, "true, if the platform has a proxy-only subnet", severity)


def _capacity(settings: Settings) -> Iterator[Finding]:
    capacity, namespace = settings.capacity, settings.namespace
    made = compute_class_name(namespace, settings.machine)
    if isinstance(capacity, ComputeClassMode) and len(made) > MAX_LABEL:
        yield _LONG_NAMESPACE(
            "namespace", namespace, f"up to {MAX_LABEL - len(made) + len(namespace)} characters with a ComputeClass"
        )
    yield from _run_duration(settings)
    is_empty = (
        isinstance(capacity, ComputeClassMode) and capacity.reservation is None and capacity.flex_start_seconds is None
    )
    if isinstance(capacity, ComputeClassMode) and is_empty and not (capacity.spot and settings.has_extended_shutdown):
        allowed = f"reservation or flexStartSeconds; spot alone with GKE {LONG_NOTICE}, by cluster.minVersion"
        yield _NO_PRIORITIES("capacity", "spot only" if capacity.spot else "nothing", allowed)
    if isinstance(capacity, Reservation) and capacity.nodes is not None and capacity.nodes < settings.nodes:
        canary = ", the canary's included" if settings.canary_replicas else ""
        allowed = f"{settings.nodes} or more by server.{settings.server.size_key}{canary}"
        yield _SMALL_RESERVATION("capacity.nodes", capacity.nodes, allowed)


def _run_duration(settings: Settings) -> Iterator[Finding]:
    """Whether a flex-start node lives long enough to be worth its start."""
    capacity = settings.capacity
    if isinstance(capacity, FlexStart):
        name, seconds = "runDurationSeconds", capacity.run_duration_seconds
    elif isinstance(capacity, ComputeClassMode) and capacity.flex_start_seconds is not None:
        name, seconds = "flexStartSeconds", capacity.flex_start_seconds
    else:
        return
    # The duration counts from the node's start.
    start = time_to_serve(replica_start(settings)).likely_seconds - step_seconds("gpu-node")
    least = ceil((start + LEAST_USEFUL_SECONDS) / 60) * 60
    if seconds < least:
        allowed = f"{least} to {FLEX_START_MAX_SECONDS}: a server serves after about {start / 60:.0f} minutes"
        yield _SHORT_RUN(f"capacity.{name}", seconds, allowed)


def _weights(settings: Settings) -> Iterator[Finding]:
    weights = settings.weights
    model = settings.serving.model.model_copy(update={"size_gb": size_gb(settings)})
    if (weights.source == "image") != (weights.image is not None):
        yield _IMAGE("weights.image", weights.image, "the disk image with the weights, only with source: image")
    if weights.has_volume:
        yield from volume_problems(weights, model, readers=settings.nodes)
        return
    most = settings.replicas if settings.scales_by_batch else settings.server.fixed_replicas
    if most not in (0, 1):
        yield _DOWNLOADS("weights.source", "huggingface", "hyperdisk, for more than one replica")
    given, rest = settings.resources.ephemeral_storage_gib, LEAST_EPHEMERAL_STORAGE_GIB
    least = ceil(model.size_gb * 1e9 / 2**30) + rest
    if given < least:
        allowed = f"{least} or more: {model.size_gb:g} GB of weights, and {rest} GiB for the rest"
        yield _FULL_DISK("server.resources.ephemeralStorageGib", given, allowed)


def _scaling(settings: Settings) -> Iterator[Finding]:
    if settings.server.scaling.mode != "none":
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
            yield _TWO_SECRETS(path, named.name, f"either this or the secret key {NAMESPACE}:{name}")


def _exposure(settings: Settings) -> Iterator[Finding]:
    gateway, server = settings.gateway, settings.server
    if gateway.enabled and gateway.is_public and not settings.guards_v1_only:
        allowed = "gke-l7-rilb, or the external class with an API key"
        yield _OPEN("gateway.gatewayClass", gateway.gateway_class, allowed)
    if settings.has_router:
        return  # routers serve /v1 only, and nothing else reaches the servers
    if settings.guards_v1_only and server.internal_load_balancer:
        allowed = "false, unless the whole VPC may use the server without the key"
        yield _V1_ONLY("server.internalLoadBalancer", True, allowed)
    elif settings.guards_v1_only and not gateway.enabled:
        allowed = "true, unless pods and namespaces labeled as clients may use the server without the key"
        yield _V1_ONLY("gateway.enabled", False, allowed)


def _shutdown(settings: Settings) -> Iterator[Finding]:
    drain_seconds = settings.server.drain_seconds
    planned = drain(drain_seconds, settings.api_servers_of_a_stream)
    if drain_seconds is not None and planned.stream_seconds < (mean := mean_request_seconds()):
        allowed = (
            f"this value, if answers take less than {planned.stream_seconds} s; the record's take {mean:g} s on average"
        )
        yield _SHORT_DRAIN("server.drainSeconds", drain_seconds, allowed)


def _node_price(settings: Settings) -> Iterator[Finding]:
    """A price of the nodes far below the list: after a slip of the point, neither ceiling nor limit is reached."""
    stated, machine = settings.capacity.usd_per_node_hour, settings.machine
    if stated is None:
        return
    listed = node_price(settings.placement.price_key, settings.region, machine) or next(
        iter(published(machine.type)), None
    )
    if listed is not None and stated < LOW_SHARE * listed.usd:
        allowed = f"{LOW_SHARE * listed.usd:,.2f} or more: half of the list price ({listed.mode}, {listed.region}, {listed.date})"
        yield _LOW_PRICE("capacity.usdPerNodeHour", stated, allowed)


def _prices(settings: Settings) -> Iterator[Finding]:
    if old := bill(fleet_shape(settings)).old(today()):
        dates = sorted({item.price.date for item in old if item.price is not None})
        allowed = f"list prices of the last {OLD_AFTER_DAYS} days; older: {', '.join(item.name for item in old)}"
        yield _OLD_PRICES("prices", dates[0], allowed)
    known = priced_items()
    for item in sorted(set(settings.prices) - set(known)):
        allowed = ", ".join(f"{id_} (USD per {unit})" for id_, unit in known.items())
        yield _NO_ITEM(f"prices.{item}", settings.prices[item], allowed)
