"""Autoscalers of GPU servers: what makes one drop a fleet, ask for the impossible, or fight over the number of servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from objects import named, namespace_of, number, of_kind, own_name, shown
from rule import Finding, Resource, Setting, Settings, StackRule, dig, has, listed
from scalers import scalers

HOLDS: Final = ("currentReplicas", "currentReplicasIfHigher")
"""Fallbacks that take no server away. Source: keda 2.20.2, pkg/fallback; left out, it is `static`."""
KUBERNETES_DOWN_SECONDS: Final = 300
"""Source: Kubernetes 1.36, HorizontalPodAutoscaler, scaleDown.stabilizationWindowSeconds; its policy takes away all at once."""
START_SECONDS: Final = 960
"""Source: the article: six minutes for a node, ten to load, compile and capture."""
QUEUE: Final = "num_requests_waiting"
RUNNING: Final = "num_requests_running"


def _silence(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        least = number(dig(scaler.spec, "minReplicaCount"))
        if not scaler.is_keda or least:
            continue
        if least is None:
            yield scaler.found(
                f"{named(scaler.resource)}: spec.minReplicaCount is left out, which is 0", fix="minReplicaCount: 1"
            )
        for trigger in scaler.metrics:
            if str(dig(trigger, "metadata", "ignoreNullValues")).lower() != "false":
                yield scaler.found(
                    f"{named(scaler.resource)}: spec.minReplicaCount is 0 and its {dig(trigger, 'type')} trigger takes no answer for 0"
                )


def _queue(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        said = [str(text) for one in scaler.metrics for text in _queries(one)]
        if any(QUEUE in text for text in said) and not any(RUNNING in text for text in said):
            yield scaler.found(f"{named(scaler.resource)} asks for {QUEUE} and not for {RUNNING}")


def _queries(metric: Any) -> tuple[Any, ...]:
    """Where a metric says what it measures."""
    names = (dig(metric, kind, "metric", "name") for kind in ("pods", "external", "object"))
    return (dig(metric, "metadata", "query"), *names)


def _fallback(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        if not scaler.is_keda or not scaler.metrics:
            continue
        fallback = dig(scaler.spec, "fallback")
        if not number(dig(scaler.spec, "minReplicaCount")):
            if fallback is not None:
                yield scaler.found(
                    f"{named(scaler.resource)}: spec.fallback at minReplicaCount 0 starts a server as soon as all are gone"
                )
            continue
        behavior = dig(fallback, "behavior") or "static"
        if number(dig(fallback, "failureThreshold")) is None or number(dig(fallback, "replicas")) is None:
            yield scaler.found(f"{named(scaler.resource)}: spec.fallback is incomplete or left out")
        elif behavior not in HOLDS:
            yield scaler.found(f"{named(scaler.resource)}: spec.fallback.behavior is {behavior}")


def _written(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        spec = dig(scaler.deployment.props, "spec")
        if has(spec, "replicas"):
            yield scaler.found(
                f"{named(scaler.deployment)}: spec.replicas is {shown(spec['replicas'])}, and {named(scaler.resource)} scales it",
                urn=scaler.deployment.urn,
            )


def _above_quota(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    quotas = list(of_kind(resources, "ResourceQuota"))
    for scaler in scalers(resources):
        for quota in quotas:
            written = dig(quota.props, "spec", "hard", "requests.nvidia.com/gpu")
            hard = number(int(written) if isinstance(written, str) and written.isdigit() else written)
            if namespace_of(quota) != scaler.pod.namespace or hard is None or scaler.most is None:
                continue
            if scaler.most * scaler.pod.gpus > hard:
                yield scaler.found(
                    f"{named(scaler.resource)} may ask for {shown(scaler.most)} x {shown(scaler.pod.gpus)} GPUs, and {named(quota)} "
                    f"allows {shown(hard)}",
                    fix=f"at most {int(hard // scaler.pod.gpus)} replicas, or a quota for as many",
                )


def _twice(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    found = sorted(scalers(resources), key=lambda one: one.deployment.urn)
    for _urn, group in groupby(found, key=lambda one: one.deployment.urn):
        first, *others = sorted(group, key=lambda one: one.resource.urn)
        for other in others:
            yield other.found(
                f"{named(other.resource)} scales {own_name(first.deployment)}, as {named(first.resource)} does"
            )


def _hasty(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        window = number(dig(scaler.down, "stabilizationWindowSeconds"))
        window = KUBERNETES_DOWN_SECONDS if window is None else window
        slow = [one for one in listed(dig(scaler.down, "policies")) if _is_slow(one, float(settings["periodSeconds"]))]
        policies = len(tuple(listed(dig(scaler.down, "policies"))))
        if window < float(settings["windowSeconds"]):
            yield scaler.found(f"{named(scaler.resource)} takes servers away after {window:g} s of less load")
        elif not policies or len(slow) < policies:
            yield scaler.found(f"{named(scaler.resource)} may take away many servers at once")


def _is_slow(policy: Any, period_seconds: float) -> bool:
    few = dig(policy, "type") == "Pods" and number(dig(policy, "value")) == 1
    return few and (number(dig(policy, "periodSeconds")) or 0) >= period_seconds


RULES: Final = (
    StackRule(
        name="scaler-zero-on-silence",
        subject="scaling",
        statement="An autoscaler that may go to zero says so, and does not take missing metrics for no load.",
        evidence="KEDA counts an empty answer as 0 unless told otherwise, and at minReplicaCount 0 it writes replicas 0 itself, past "
        "every window of the autoscaler: twelve servers are gone five minutes after scraping fails. Source: keda 2.20.2, "
        "prometheus_scaler.go, scale_scaledobjects.go. Mandatory: an outage of metrics becomes one of the fleet",
        fix='ignoreNullValues: "false", or minReplicaCount: 1',
        level="mandatory",
        severity="high",
        judge=_silence,
    ),
    StackRule(
        name="scaler-by-queue-alone",
        subject="scaling",
        statement="Servers are scaled by requests in flight, not by those that wait.",
        evidence="a queue grows for as long as a server takes to start, about 16 minutes, so that it asks for the most servers after each "
        "rise; and it is empty until the fleet is full. Source: the article's start-up; Little's law. Advisory: a batch queue may "
        "be meant to grow",
        fix="sum(vllm:num_requests_running{...}) + sum(vllm:num_requests_waiting{...})",
        level="advisory",
        severity="medium",
        judge=_queue,
    ),
    StackRule(
        name="scaler-without-fallback",
        subject="scaling",
        statement="An autoscaler keeps the servers it has while its metrics are gone.",
        evidence="without a fallback a failing trigger leaves the others to decide, and a static one drops the fleet to its number at "
        "peak load. At a minimum of 0 it counts as activity: an empty fleet has no series, and gets a server again and again. Source: "
        "keda 2.20.2, pkg/fallback, scale_handler.go; kedacore/keda issue 3065. Mandatory: metrics do fail",
        fix="fallback: {failureThreshold: 4, replicas: 2, behavior: currentReplicasIfHigher}; none at a minimum of 0",
        level="mandatory",
        severity="high",
        judge=_fallback,
    ),
    StackRule(
        name="replicas-beside-scaler",
        subject="scaling",
        statement="A Deployment that an autoscaler scales does not say how many replicas it has.",
        evidence="each update would set the number back, or be refused over the field: one at noon takes a fleet to its night's size. "
        "Source: Kubernetes, server-side apply; HorizontalPodAutoscaler. Mandatory: the number has one owner",
        fix="leave spec.replicas out, and ignore changes of it",
        level="mandatory",
        severity="high",
        judge=_written,
    ),
    StackRule(
        name="scaler-above-quota",
        subject="scaling",
        statement="The most servers of an autoscaler fit the GPU quota of their namespace.",
        evidence="the quota refuses the pods beyond it, and the autoscaler goes on believing that they come: load that they would take is "
        "waited for in vain. Source: Kubernetes, ResourceQuota. Mandatory: one of the two numbers is a slip",
        fix="maxReplicaCount x GPUs of a pod at most the quota",
        level="mandatory",
        severity="medium",
        judge=_above_quota,
    ),
    StackRule(
        name="two-scalers",
        subject="scaling",
        statement="A Deployment has one autoscaler.",
        evidence="two of them write the number in turn, each undoing the other every 15 seconds; servers start and end without serving. "
        "Source: Kubernetes, HorizontalPodAutoscaler (AmbiguousSelector); KEDA's webhook refuses it where it runs. Mandatory: paid "
        "nodes that never answer",
        fix="one ScaledObject with a trigger for each signal: the largest counts",
        level="mandatory",
        severity="high",
        judge=_twice,
    ),
    StackRule(
        name="scaler-down-hasty",
        subject="scaling",
        statement="Servers are taken away one at a time, after longer than one takes to come back.",
        evidence=f"a server taken away and wanted again costs its start of {START_SECONDS // 60} minutes and ten idle minutes of its "
        f"node; Kubernetes' own window is {KUBERNETES_DOWN_SECONDS} s, after which all may go at once. Source: the article; Kubernetes "
        "defaults. Advisory: it costs money and latency, not answers",
        fix="scaleDown: {stabilizationWindowSeconds: 2400, policies: [{type: Pods, value: 1, periodSeconds: 900}]}",
        level="advisory",
        severity="medium",
        settings=(
            Setting(
                name="windowSeconds",
                type="number",
                default=START_SECONDS,
                unit="s",
                why="Time that lower load must last before a server goes",
            ),
            Setting(
                name="periodSeconds", type="number", default=300, unit="s", why="Least time between two servers that go"
            ),
        ),
        judge=_hasty,
    ),
)
