"""Rules for gateways: required APIs and subnets, health checks, timeouts, endpoint pickers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from engines import described, reasons
from facts import ledger
from facts.lessons.gateway import EPP_REPLICAS, EPP_UNDERSIZED, PROXY_ONLY_SUBNET, Picker
from facts.lessons.lesson import Lesson
from facts.lessons.words import CONCURRENCY_ANNOTATION, RESOURCES
from objects import named, namespace_of, number, own_name, shown
from routing import (
    GKE_API,
    Backend,
    GatewayObject,
    Pool,
    Route,
    gateways,
    gke_policies,
    model_backends,
    pods_behind,
    pools,
    servers_behind,
    stake,
)
from routing import Picker as RenderedPicker
from rule import Finding, Resource, Rule, Setting, Settings, StackRule, dig

SERVICE_API = "gcp:projects/service:Service"
SUBNET = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"
NETWORK_SERVICES = "networkservices.googleapis.com"
PROXY_ONLY = "REGIONAL_MANAGED_PROXY"
SMALLEST_PREFIX = 26
"""Longest prefix of a proxy-only subnet. Source: Google Cloud, proxy-only subnets: /26 at least, /23 recommended."""
HEALTH_PATHS = ("/health", "/ping")
"""Source: vLLM 0.18.1, its HTTP server: both answer 200 while the engines live, without a key."""
GKE_TIMEOUT_SECONDS = 30
"""Source: GKE Gateway documentation, default backend timeout."""
TTFT_P99_MS: float = ledger.value("cluster_ip_rerun.figures.nodes-1.details.ttft_ms.p99")
TPOT_P99_MS: float = ledger.value("cluster_ip_rerun.figures.nodes-1.details.tpot_ms.p99")
RECORD_ANSWER_TOKENS = 512
"""Longest answer of the article's workload. Source: the article, 256 to 512 tokens out."""
LONG_ANSWER_TOKENS = 8_192
"""Assumed: a reasoning answer; the longest in a context of 8K."""


def answer_seconds(tokens: int) -> float:
    """Time of a slow request: first token and each further token at the record's 99th percentile."""
    return (TTFT_P99_MS + tokens * TPOT_P99_MS) / 1000


SHORTEST_TIMEOUT_SECONDS = 60
"""Covers the record's slowest request: 11.6 s to the first token, then 512 of 73 ms, 49 s in total."""
LONG_TIMEOUT_SECONDS = 600
"""Source: `answer_seconds(LONG_ANSWER_TOKENS)` is 609 s, rounded."""


def _gke(resources: Sequence[Resource]) -> Iterator[GatewayObject]:
    yield from (one for one in gateways(resources) if one.is_gke)


def _clusters(resources: Sequence[Resource]) -> tuple[Resource, ...]:
    return tuple(one for one in resources if one.type == CLUSTER)


def _without_api(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    enabled = [dig(one.props, "service") for one in resources if one.type == SERVICE_API]
    clusters = _clusters(resources)
    for gateway in _gke(resources):
        # Without APIs or a cluster, another stack owns both.
        if clusters and enabled and NETWORK_SERVICES not in enabled:
            yield Finding(
                what=f"{named(gateway.resource)} ({gateway.class_name}): {NETWORK_SERVICES} is not among the "
                f"{len(enabled)} APIs that this stack enables",
                urn=gateway.resource.urn,
            )
        for cluster in clusters:
            channel = dig(cluster.props, "gatewayApiConfig", "channel")
            standard = dig(cluster.props, "enableAutopilot") is not True
            if channel == "CHANNEL_DISABLED" or (channel is None and standard):
                yield Finding(
                    what=f"{named(gateway.resource)} ({gateway.class_name}): the cluster's gatewayApiConfig.channel is "
                    f"{channel or 'missing, which means CHANNEL_DISABLED in a Standard cluster'}",
                    fix="gatewayApiConfig: {channel: CHANNEL_STANDARD}",
                    urn=gateway.resource.urn,
                )


def _without_subnet(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    subnets = [one for one in resources if one.type == SUBNET]
    # A stack without subnets uses another stack's network.
    if not subnets:
        return
    active = [
        one for one in subnets if dig(one.props, "purpose") == PROXY_ONLY and dig(one.props, "role") in (None, "ACTIVE")
    ]
    regions = [str(dig(one.props, "location") or "") for one in _clusters(resources)]
    for gateway in _gke(resources):
        if not gateway.is_regional:
            continue
        # A cluster's location is a region or a zone.
        right = [
            one
            for one in active
            if not regions or any(region.startswith(str(dig(one.props, "region") or "")) for region in regions)
        ]
        label, urn = f"{named(gateway.resource)} ({gateway.class_name})", gateway.resource.urn
        if not right:
            where = f" in {', '.join(regions)}" if regions else ""
            yield Finding(
                what=f"{label}: no subnet of this stack has purpose {PROXY_ONLY} and role ACTIVE{where}", urn=urn
            )
        for subnet in right:
            cidr = str(dig(subnet.props, "ipCidrRange") or "")
            if _prefix_length(cidr) > SMALLEST_PREFIX:
                yield Finding(
                    what=f"{subnet.label}: ipCidrRange {cidr} is smaller than /{SMALLEST_PREFIX}",
                    why="Google Cloud refuses a smaller proxy-only subnet, because each proxy needs addresses",
                    fix="a /23, at least a /26",
                    urn=subnet.urn,
                )


def _prefix_length(cidr: str) -> int:
    """Prefix length of a range; 0 for an invalid range, which Google Cloud refuses."""
    try:
        return IPv4Network(cidr, strict=False).prefixlen
    except ValueError:
        return 0


def _global_gateway(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for backend, through in model_backends(resources).items():
        for gateway in _gateways_of(through):
            if backend.kind == "InferencePool" and gateway.is_gke and not gateway.is_regional:
                yield Finding(
                    what=f"{named(gateway.resource)} has class {gateway.class_name} and routes to {backend}",
                    urn=gateway.resource.urn,
                )


def _gateways_of(through: Sequence[Route]) -> list[GatewayObject]:
    return list(
        {one.resource.urn or own_name(one.resource): one for route in through for one in route.gateways}.values()
    )


def _without_health_check(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    brought = {pool.backend for pool in pools(resources) if pool.brings_policies}
    for backend, through in model_backends(resources).items():
        checks = gke_policies(resources, "HealthCheckPolicy", backend)
        if not checks and backend not in brought:
            yield Finding(
                what=f"{named(through[0].resource)} routes to {backend}, and no HealthCheckPolicy in {backend.namespace} targets it",
                urn=through[0].resource.urn,
                at_stake=stake(servers_behind(resources, backend)),
            )
        for check in checks:
            config = dig(check.props, "spec", "default", "config")
            path = dig(config, "httpHealthCheck", "requestPath") or "/"
            if dig(config, "type") in (None, "HTTP") and path not in HEALTH_PATHS:
                yield Finding(
                    what=f"{named(check)}: spec.default.config.httpHealthCheck.requestPath is {path}",
                    why="vLLM answers 404 there or requires its key, so every replica counts as unhealthy",
                    fix="requestPath: /health",
                    urn=check.urn,
                    at_stake=stake(servers_behind(resources, backend)),
                )


def _invalid_health_check(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.kind != "HealthCheckPolicy" or not resource.type.startswith(f"kubernetes:{GKE_API}/"):
        return
    spec = dig(resource.props, "spec", "default")
    interval, timeout = number(dig(spec, "checkIntervalSec")), number(dig(spec, "timeoutSec"))
    if interval is not None and timeout is not None and timeout > interval:
        yield Finding(
            what=f"spec.default.timeoutSec is {timeout:g}, longer than checkIntervalSec {interval:g}",
            why="Google Cloud refuses a health check with a timeout longer than its interval",
            fix=f"timeoutSec: {interval:g}",
        )
    for kind in ("httpHealthCheck", "httpsHealthCheck", "http2HealthCheck", "grpcHealthCheck", "tcpHealthCheck"):
        check = dig(spec, "config", kind)
        port, meant = dig(check, "port"), dig(check, "portSpecification")
        if port is not None and meant != "USE_FIXED_PORT":
            yield Finding(
                what=f"spec.default.config.{kind} has port {shown(port)} and portSpecification {meant or 'missing'}"
            )


def _timeouts(resources: Sequence[Resource]) -> Iterator[tuple[Backend, Resource, float | None]]:
    """Each backend's timeout, with the policy that sets it or else the route."""
    brought = {pool.backend for pool in pools(resources) if pool.brings_policies}
    for backend, through in model_backends(resources).items():
        policies = gke_policies(resources, "GCPBackendPolicy", backend)
        for policy in policies:
            yield backend, policy, number(dig(policy.props, "spec", "default", "timeoutSec"))
        if not policies and backend not in brought:
            yield backend, through[0].resource, None


def _cuts_streams(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for backend, where, timeout in _timeouts(resources):
        if timeout is None or timeout < SHORTEST_TIMEOUT_SECONDS:
            found = (
                f"no GCPBackendPolicy sets a timeout for {backend}, so GKE's default of {GKE_TIMEOUT_SECONDS} s applies"
                if timeout is None
                else f"spec.default.timeoutSec is {timeout:g}"
            )
            yield Finding(
                what=f"{named(where)}: {found}", urn=where.urn, at_stake=stake(servers_behind(resources, backend))
            )


def _short_timeout(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    wanted = float(settings["timeoutSeconds"])
    for _, where, timeout in _timeouts(resources):
        if timeout is not None and SHORTEST_TIMEOUT_SECONDS <= timeout < wanted:
            yield Finding(
                what=f"{named(where)}: spec.default.timeoutSec is {timeout:g}",
                fix=f"timeoutSec: {wanted:g} or more",
                urn=where.urn,
            )


def _two_policies(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    targets: dict[tuple[str, str, str, str], list[Resource]] = {}
    for one in resources:
        if one.is_kubernetes and one.type.startswith(f"kubernetes:{GKE_API}/") and one.kind.endswith("Policy"):
            kind, name = dig(one.props, "spec", "targetRef", "kind"), dig(one.props, "spec", "targetRef", "name")
            if name is not None:
                targets.setdefault((one.kind, namespace_of(one), str(kind), str(name)), []).append(one)
    for pool in pools(resources):
        if pool.brings_policies:
            for kind in ("HealthCheckPolicy", "GCPBackendPolicy"):
                key = (kind, pool.backend.namespace, pool.backend.kind, pool.backend.name)
                targets.setdefault(key, []).append(pool.resource)
    for (kind, _space, target_kind, target), found in targets.items():
        if len(found) > 1:
            makers = " and ".join(
                f"the chart of {one.label} (provider.name: gke)" if one.kind == "Release" else named(one)
                for one in found
            )
            yield Finding(
                what=f"{target_kind} {target} is the target of {len(found)} {kind} objects: {makers}", urn=found[-1].urn
            )


@dataclass(frozen=True)
class _Picker:
    """The endpoint picker of a pool, with the declared load of its pods."""

    resources: Sequence[Resource]
    pool: Pool
    picker: RenderedPicker

    @property
    def cpu(self) -> float | None:
        """Requested cores."""
        return self.picker.cpu

    @property
    def replicas(self) -> int:
        """Declared replicas."""
        return self.picker.replicas

    @property
    def connections(self) -> int:
        """Sum over the pool's pods: replicas x declared concurrency."""
        total = 0
        for pod in pods_behind(self.resources, self.pool.backend.namespace, self.pool.selector):
            declared = pod.annotation(CONCURRENCY_ANNOTATION)
            total += pod.replicas * int(declared) if declared and declared.isdigit() else 0
        return total


def _pickers(lesson: Lesson[Picker]) -> Callable[[Sequence[Resource], Settings], Iterator[Finding]]:
    """Apply a lesson about endpoint pickers to a stack's resources."""

    def judge(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
        for pool in pools(resources):
            if pool.picker is None:
                continue
            for broken in lesson.judge(_Picker(resources, pool, pool.picker), settings):
                yield Finding(
                    what=f"{pool.picker.resource.label}, {pool.picker.path}: {RESOURCES.what(broken)}",
                    urn=pool.picker.resource.urn,
                    # An advisory concerns the pickers, not the servers.
                    at_stake=stake(servers_behind(resources, pool.backend)) if lesson.level == "mandatory" else "",
                    **reasons(lesson, broken),
                )

    return judge


RULES = (
    StackRule(
        name="gateway-without-api",
        subject="network",
        statement="A stack that creates a GKE Gateway and its cluster enables the required APIs.",
        evidence=f"without {NETWORK_SERVICES} or the cluster's Gateway API, the Gateway stays at PROGRAMMED False without an error. "
        "Source: Inference Gateway guide v1.4.0; GKE Gateway documentation. Mandatory: no request arrives. Not checked in a stack that "
        "creates no cluster or enables no API",
        fix=f"enable {NETWORK_SERVICES}",
        level="mandatory",
        severity="high",
        judge=_without_api,
    ),
    StackRule(judge=_without_subnet, **described(PROXY_ONLY_SUBNET)),
    StackRule(
        name="pool-behind-global-gateway",
        subject="network",
        statement="An InferencePool uses a regional GKE Gateway.",
        evidence="GKE's global classes do not support InferencePool: the route never resolves. Source: GKE gateway documentation of the "
        "inference extension. Mandatory: no request arrives",
        fix="gatewayClassName: gke-l7-rilb, or gke-l7-regional-external-managed",
        level="mandatory",
        severity="high",
        judge=_global_gateway,
    ),
    StackRule(
        name="gateway-without-health-check",
        subject="network",
        statement="Each backend of a GKE Gateway has a HealthCheckPolicy for vLLM's /health.",
        evidence="by default the load balancer requests / and vLLM answers 404, so every replica counts as unhealthy. Source: GKE Gateway "
        "documentation; vLLM 0.18.1. Mandatory: every request gets 503",
        fix="a HealthCheckPolicy with requestPath: /health and the backend as its targetRef",
        level="mandatory",
        severity="high",
        judge=_without_health_check,
    ),
    Rule(
        name="health-check-invalid",
        subject="network",
        statement="A HealthCheckPolicy is valid for Google Cloud and GKE's CRD.",
        evidence="since April 2026 the CRD accepts a port only with portSpecification USE_FIXED_PORT. Source: GKE gateway API, "
        "HealthCheckPolicy. Mandatory: the object is refused, or has no effect",
        fix="portSpecification: USE_FIXED_PORT beside the port",
        level="mandatory",
        severity="medium",
        judge=_invalid_health_check,
    ),
    StackRule(
        name="gateway-cuts-streams",
        subject="network",
        statement="A gateway's timeout covers the slowest answer of the record.",
        evidence=f"GKE's default timeout is {GKE_TIMEOUT_SECONDS} s for the whole answer; a request of the record takes 24 s on average "
        f"and {answer_seconds(RECORD_ANSWER_TOKENS):.0f} s at both 99th percentiles ({TTFT_P99_MS / 1000:.1f} s + {RECORD_ANSWER_TOKENS} "
        f"x {TPOT_P99_MS:g} ms). Source: the article, second run. Mandatory: answers are cut off, and their GPU time is lost",
        fix="a GCPBackendPolicy with timeoutSec: 3600 for the backend",
        level="mandatory",
        severity="high",
        judge=_cuts_streams,
    ),
    StackRule(
        name="gateway-timeout-short",
        subject="network",
        statement="A gateway's timeout covers a long answer.",
        evidence=f"{LONG_ANSWER_TOKENS:,} tokens at the record's 99th percentile take {answer_seconds(LONG_ANSWER_TOKENS):.0f} s; the "
        "inferencepool chart's own policy ends answers at 300 s. Source: the article, second run; chart v1.4.0. Advisory: the team knows "
        "how long its answers are",
        fix="timeoutSec: 3600",
        level="advisory",
        severity="medium",
        settings=(
            Setting(
                name="timeoutSeconds",
                type="number",
                default=LONG_TIMEOUT_SECONDS,
                unit="s",
                why="Duration of this stack's slowest answer",
            ),
        ),
        judge=_short_timeout,
    ),
    StackRule(
        name="two-policies-on-one-target",
        subject="network",
        statement="Each target has one GKE policy of each kind.",
        evidence="GKE applies the oldest and marks the others as conflicted. The inferencepool chart writes two of its own with "
        "provider.name: gke. Source: GKE Gateway documentation; chart v1.4.0, templates. Mandatory: the timeout in force is not the one "
        "written here",
        fix="remove one; to keep your own policies, set provider.name: none in the chart's values",
        level="mandatory",
        severity="medium",
        judge=_two_policies,
    ),
    StackRule(judge=_pickers(EPP_UNDERSIZED), **described(EPP_UNDERSIZED)),
    StackRule(judge=_pickers(EPP_REPLICAS), **described(EPP_REPLICAS)),
)
