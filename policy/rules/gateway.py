"""Rules for gateways: required APIs and subnets, timeouts, endpoint pickers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from engines import described
from facts import ledger
from facts.finding import Finding
from facts.lessons.gateway import EPP_REPLICAS, EPP_UNDERSIZED, PROXY_ONLY_SUBNET, Picker
from facts.lessons.lesson import Lesson
from facts.lessons.words import CONCURRENCY_ANNOTATION, RESOURCES
from objects import named, number
from routing import (
    Backend,
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
from rule import Resource, Settings, StackRule, dig, finding, with_stake
from tokens import API, CLUSTER, SUBNET

PROXY_ONLY: Final = "REGIONAL_MANAGED_PROXY"
CHANNEL: Final = "CHANNEL_STANDARD"
GATEWAY_SERVICE: Final = "networkservices.googleapis.com"
"""API of the Gateway controller. Source: GKE documentation, deploying Gateways, requirements."""
GKE_TIMEOUT_SECONDS: Final = 30
"""Source: GKE Gateway documentation, default backend timeout."""
TTFT_P99_MS: float = ledger.value("cluster_ip_rerun.figures.nodes-1.details.ttft_ms.p99")
TPOT_P99_MS: float = ledger.value("cluster_ip_rerun.figures.nodes-1.details.tpot_ms.p99")
RECORD_ANSWER_TOKENS: Final = 512
"""Longest answer of the article's workload. Source: the article, 256 to 512 tokens out."""


def answer_seconds(tokens: int) -> float:
    """Time of a slow request: first token and each further token at the record's 99th percentile."""
    return (TTFT_P99_MS + tokens * TPOT_P99_MS) / 1000


SHORTEST_TIMEOUT_SECONDS: Final = 60
"""Covers the record's slowest request: 11.6 s to the first token, then 512 of 73 ms, 49 s in total."""


def _without_subnet(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    subnets = [resource for resource in resources if resource.type == SUBNET]
    # A cluster's location is a region or a zone.
    places = [str(dig(one.props, "location") or "") for one in resources if one.type == CLUSTER]
    there = any(
        dig(one.props, "purpose") == PROXY_ONLY
        and dig(one.props, "role") in (None, "ACTIVE")
        and (not places or any(place.startswith(str(dig(one.props, "region") or "")) for place in places))
        for one in subnets
    )
    # A stack without subnets uses another stack's network.
    for gateway in gateways(resources) if subnets else ():
        if gateway.is_regional:
            for breach in PROXY_ONLY_SUBNET.judge(there, settings):
                found = (
                    f"{named(gateway.resource)} ({gateway.class_name}): no subnet of this stack has purpose {PROXY_ONLY} and role "
                    f"ACTIVE{f' in {places[0]}' if places else ''}"
                )
                yield RESOURCES.finding(PROXY_ONLY_SUBNET, breach, subject=gateway.resource.urn, found=found)


def _without_apis(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    clusters = [resource for resource in resources if resource.type == CLUSTER]
    apis = {dig(resource.props, "service") for resource in resources if resource.type == API}
    for gateway in (gateway for gateway in gateways(resources) if gateway.is_gke and clusters):
        if apis and GATEWAY_SERVICE not in apis:
            yield finding(
                f"{named(gateway.resource)}: {GATEWAY_SERVICE} is not among the APIs that this stack enables",
                urn=gateway.resource.urn,
            )
        for cluster in clusters:
            # Autopilot's default.
            channel = dig(cluster.props, "gatewayApiConfig", "channel") or CHANNEL
            if channel != CHANNEL:
                yield finding(
                    f"{named(gateway.resource)}: gatewayApiConfig.channel of {cluster.label} is {channel}",
                    urn=cluster.urn,
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
            yield finding(f"{named(where)}: {found}", urn=where.urn, at_stake=stake(servers_behind(resources, backend)))


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


RULES: Final = (
    StackRule(judge=_without_subnet, **described(PROXY_ONLY_SUBNET)),
    StackRule(
        name="gateway-without-apis",
        subject="network",
        statement="A GKE Gateway's cluster has its controller, and its project the API that the controller calls.",
        evidence="without either the Gateway stays at PROGRAMMED False without a message. Source: GKE documentation, deploying Gateways; "
        "the article. Mandatory: no request arrives. Not checked in a stack on another's cluster",
        fix=f"gatewayApiConfig: {{channel: {CHANNEL}}} and a Service for {GATEWAY_SERVICE}",
        level="mandatory",
        severity="high",
        judge=_without_apis,
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
    StackRule(judge=_pickers(EPP_UNDERSIZED), **described(EPP_UNDERSIZED)),
    StackRule(judge=_pickers(EPP_REPLICAS), **described(EPP_REPLICAS)),
)
