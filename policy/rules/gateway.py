"""Rules for gateways: required APIs and subnets, health checks, timeouts, endpoint pickers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

from engines import described
from facts import ledger
from facts.finding import Finding
from facts.lessons.gateway import EPP_REPLICAS, EPP_UNDERSIZED, PROXY_ONLY_SUBNET, Picker
from facts.lessons.lesson import Lesson
from facts.lessons.words import CONCURRENCY_ANNOTATION, RESOURCES
from objects import named, number
from routing import (
    Backend,
    GatewayObject,
    Pool,
    gateways,
    gke_policies,
    model_backends,
    pods_behind,
    pools,
    servers_behind,
    stake,
)
from routing import Picker as RenderedPicker
from rule import Resource, Setting, Settings, StackRule, dig, finding, with_stake

SUBNET = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"
PROXY_ONLY = "REGIONAL_MANAGED_PROXY"
SMALLEST_PREFIX = 26
"""Longest prefix of a proxy-only subnet. Source: Google Cloud, proxy-only subnets: /26 at least, /23 recommended."""
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
    yield from (gateway for gateway in gateways(resources) if gateway.is_gke)


def _clusters(resources: Sequence[Resource]) -> tuple[Resource, ...]:
    return tuple(resource for resource in resources if resource.type == CLUSTER)


def _without_subnet(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    subnets = [resource for resource in resources if resource.type == SUBNET]
    # A stack without subnets uses another stack's network.
    if not subnets:
        return
    active = [
        one for one in subnets if dig(one.props, "purpose") == PROXY_ONLY and dig(one.props, "role") in (None, "ACTIVE")
    ]
    regions = [str(dig(cluster.props, "location") or "") for cluster in _clusters(resources)]
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
        where = f" in {', '.join(regions)}" if regions else ""
        for breach in PROXY_ONLY_SUBNET.judge(bool(right), settings):
            found = f"{label}: no subnet of this stack has purpose {PROXY_ONLY} and role ACTIVE{where}"
            yield RESOURCES.finding(PROXY_ONLY_SUBNET, breach, subject=urn, found=found)
        for subnet in right:
            cidr = str(dig(subnet.props, "ipCidrRange") or "")
            if _prefix_length(cidr) > SMALLEST_PREFIX:
                yield finding(
                    f"{subnet.label}: ipCidrRange {cidr} is smaller than /{SMALLEST_PREFIX}",
                    why="Google Cloud refuses a smaller proxy-only subnet, because each proxy needs addresses",
                    write="a /23, at least a /26",
                    urn=subnet.urn,
                )


def _prefix_length(cidr: str) -> int:
    """Prefix length of a range; 0 for an invalid range, which Google Cloud refuses."""
    try:
        return IPv4Network(cidr, strict=False).prefixlen
    except ValueError:
        return 0


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
            yield finding(f"{named(where)}: {found}", urn=where.urn, at_stake=stake(servers_behind(resources, backend)))


def _short_timeout(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    wanted = float(settings["timeoutSeconds"])
    for _, where, timeout in _timeouts(resources):
        if timeout is not None and SHORTEST_TIMEOUT_SECONDS <= timeout < wanted:
            yield finding(
                f"{named(where)}: spec.default.timeoutSec is {timeout:g}",
                write=f"timeoutSec: {wanted:g} or more",
                urn=where.urn,
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
            picker = pool.picker
            # An advisory concerns the pickers, not the servers.
            at_stake = stake(servers_behind(resources, pool.backend)) if lesson.level == "mandatory" else ""
            for breach in lesson.judge(_Picker(resources, pool, picker), settings):
                found = with_stake(f"{picker.resource.label}, {picker.path}: {RESOURCES.found(breach)}", at_stake)
                yield RESOURCES.finding(lesson, breach, subject=picker.resource.urn, found=found)

    return judge


RULES = (
    StackRule(judge=_without_subnet, **described(PROXY_ONLY_SUBNET)),
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
    StackRule(judge=_pickers(EPP_UNDERSIZED), **described(EPP_UNDERSIZED)),
    StackRule(judge=_pickers(EPP_REPLICAS), **described(EPP_REPLICAS)),
)
