"""Rules for autoscalers of GPU servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from facts.finding import Finding
from objects import named, namespace_of, number, of_kind, own_name, shown
from pods import fixes_replicas
from rule import Resource, Setting, Settings, StackRule, dig, listed
from scalers import scalers

HOLDS: Final = ("currentReplicas", "currentReplicasIfHigher")
"""Fallbacks that remove no replica. Source: keda 2.20.2, pkg/fallback; the default is `static`."""
KUBERNETES_DOWN_SECONDS: Final = 300
"""Source: Kubernetes 1.36, HorizontalPodAutoscaler, scaleDown.stabilizationWindowSeconds; its policy removes all at the same time."""
START_SECONDS: Final = 960
"""Source: the article: six minutes for a node, ten to load, compile and capture."""
QUEUE: Final = "num_requests_waiting"
RUNNING: Final = "num_requests_running"


def _silence(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        least, idle = scaler.least, number(dig(scaler.spec, "idleReplicaCount"))
        key = "minReplicaCount" if idle is None else "idleReplicaCount"
        least = least if idle is None else idle
        if not scaler.is_keda or least:
            continue
        if least is None:
            yield scaler.found(
                f"{named(scaler.resource)}: spec.minReplicaCount is missing, which means 0", fix="minReplicaCount: 1"
            )
        for trigger in scaler.metrics:
            if str(dig(trigger, "metadata", "ignoreNullValues")).lower() != "false":
                yield scaler.found(
                    f"{named(scaler.resource)}: spec.{key} is 0, and its {dig(trigger, 'type')} trigger counts no result as 0"
                )


def _queue(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        queries = [str(text) for metric in scaler.metrics for text in _queries(metric)]
        if any(QUEUE in text for text in queries) and not any(RUNNING in text for text in queries):
            yield scaler.found(f"{named(scaler.resource)} queries {QUEUE} without {RUNNING}")


def _queries(metric: Any) -> tuple[Any, ...]:
    """Query or name of a metric."""
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
                    f"{named(scaler.resource)}: spec.fallback at minReplicaCount 0 restarts an empty fleet"
                )
            continue
        behavior = dig(fallback, "behavior") or "static"
        if number(dig(fallback, "failureThreshold")) is None or number(dig(fallback, "replicas")) is None:
            yield scaler.found(f"{named(scaler.resource)}: spec.fallback is incomplete or missing")
        elif behavior not in HOLDS:
            yield scaler.found(f"{named(scaler.resource)}: spec.fallback.behavior is {behavior}")


def _written(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        if fixes_replicas(scaler.deployment):
            written = shown(dig(scaler.deployment.props, "spec", "replicas"))
            yield scaler.found(
                f"{named(scaler.deployment)}: spec.replicas is {written}, and {named(scaler.resource)} scales it",
                urn=scaler.deployment.urn,
            )


def _above_quota(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    quotas = list(of_kind(resources, "ResourceQuota"))
    for scaler in scalers(resources):
        for quota in quotas:
            written = dig(quota.props, "spec", "hard", "requests.nvidia.com/gpu")
            hard = number(int(written) if isinstance(written, str) and written.isdigit() else written)
            most = scaler.reachable
            if namespace_of(quota) != scaler.pod.namespace or hard is None or most is None:
                continue
            if most * scaler.pod.gpus > hard:
                yield scaler.found(
                    f"{named(scaler.resource)} may request {shown(most)} x {shown(scaler.pod.gpus)} GPUs, and {named(quota)} "
                    f"allows {shown(hard)}",
                    fix=f"at most {int(hard // scaler.pod.gpus)} replicas, or a higher quota",
                )


def _twice(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    found = sorted(scalers(resources), key=lambda one: one.deployment.urn)
    for _urn, group in groupby(found, key=lambda one: one.deployment.urn):
        first, *others = sorted(group, key=lambda one: one.resource.urn)
        for other in others:
            yield other.found(
                f"{named(other.resource)} and {named(first.resource)} both scale {own_name(first.deployment)}"
            )


def _hasty(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        if scaler.counts_pods:  # no load comes back for a pod that has ended
            continue
        window = number(dig(scaler.down, "stabilizationWindowSeconds"))
        window = KUBERNETES_DOWN_SECONDS if window is None else window
        slow = [
            policy
            for policy in listed(dig(scaler.down, "policies"))
            if _is_slow(policy, float(settings["periodSeconds"]))
        ]
        policies = len(tuple(listed(dig(scaler.down, "policies"))))
        if window < float(settings["windowSeconds"]):
            yield scaler.found(f"{named(scaler.resource)} removes replicas after {window:g} s of lower load")
        elif not policies or len(slow) < policies:
            yield scaler.found(f"{named(scaler.resource)} may remove several replicas at the same time")


def _is_slow(policy: Any, period_seconds: float) -> bool:
    few = dig(policy, "type") == "Pods" and number(dig(policy, "value")) == 1
    return few and (number(dig(policy, "periodSeconds")) or 0) >= period_seconds


RULES: Final = (
    StackRule(
        name="scaler-zero-on-silence",
        subject="scaling",
        statement="An autoscaler scales to zero only where configured, and never because metrics are missing.",
        evidence="KEDA counts an empty result as 0 by default. At minReplicaCount 0 it then sets replicas to 0 itself, without any "
        "stabilization window: the fleet is gone five minutes after scraping fails. Source: keda 2.20.2, prometheus_scaler.go, "
        "scale_scaledobjects.go. Mandatory: a metrics outage becomes a fleet outage",
        fix='ignoreNullValues: "false", or minReplicaCount: 1',
        level="mandatory",
        severity="high",
        judge=_silence,
    ),
    StackRule(
        name="scaler-by-queue-alone",
        subject="scaling",
        statement="Replicas scale by requests in flight, not by the queue alone.",
        evidence="the queue is empty until the fleet is full, then grows while a replica starts, about 16 minutes, so that each rise "
        "requests the maximum. Source: the article's start-up; Little's law. Advisory: a batch queue may be meant to grow",
        fix="sum(vllm:num_requests_running{...}) + sum(vllm:num_requests_waiting{...})",
        level="advisory",
        severity="medium",
        judge=_queue,
    ),
    StackRule(
        name="scaler-without-fallback",
        subject="scaling",
        statement="An autoscaler keeps its replicas while metrics are missing.",
        evidence="without a fallback the remaining triggers decide; a static fallback cuts the fleet to a fixed size at peak load. At "
        "minReplicaCount 0 a fallback counts as activity and restarts an empty fleet again and again. Source: keda 2.20.2, pkg/fallback, "
        "scale_handler.go; kedacore/keda issue 3065. Mandatory: metrics do fail",
        fix="fallback: {failureThreshold: 4, replicas: 2, behavior: currentReplicasIfHigher}; no fallback at minReplicaCount 0",
        level="mandatory",
        severity="high",
        judge=_fallback,
    ),
    StackRule(
        name="replicas-beside-scaler",
        subject="scaling",
        statement="A Deployment with an autoscaler leaves spec.replicas out.",
        evidence="each update would reset the number or fail with a field conflict: an update at noon cuts the fleet to its size at "
        "night. Source: Kubernetes, server-side apply; HorizontalPodAutoscaler. Mandatory: the number has one owner",
        fix="remove spec.replicas, and ignore its changes",
        level="mandatory",
        severity="high",
        judge=_written,
    ),
    StackRule(
        name="scaler-above-quota",
        subject="scaling",
        statement="An autoscaler's maximum fits the namespace's GPU quota.",
        evidence="the quota refuses the pods beyond it, while the autoscaler keeps waiting for them. Source: Kubernetes, ResourceQuota. "
        "Mandatory: one of the two numbers is wrong",
        fix="maxReplicaCount x GPUs per pod within the quota",
        level="mandatory",
        severity="medium",
        judge=_above_quota,
    ),
    StackRule(
        name="two-scalers",
        subject="scaling",
        statement="A Deployment has one autoscaler.",
        evidence="two autoscalers overwrite each other's number every 15 seconds, so replicas start and stop without serving. KEDA's "
        "webhook refuses it where it runs. Source: Kubernetes, HorizontalPodAutoscaler (AmbiguousSelector). Mandatory: paid nodes that "
        "never serve",
        fix="one ScaledObject with a trigger for each signal; the largest result counts",
        level="mandatory",
        severity="high",
        judge=_twice,
    ),
    StackRule(
        name="scaler-down-hasty",
        subject="scaling",
        statement="Replicas are removed one at a time, and only after low load has lasted longer than a start.",
        evidence=f"a removed replica that is needed again costs a start of {START_SECONDS // 60} minutes; Kubernetes' default window is "
        f"{KUBERNETES_DOWN_SECONDS} s, after which all may be removed together. Source: the article; Kubernetes defaults. Advisory: it "
        "costs money and latency, not answers",
        fix="scaleDown: {stabilizationWindowSeconds: 2400, policies: [{type: Pods, value: 1, periodSeconds: 900}]}",
        level="advisory",
        severity="medium",
        settings=(
            Setting(
                name="windowSeconds",
                type="number",
                default=START_SECONDS,
                unit="s",
                why="Time that lower load must last before a replica is removed",
            ),
            Setting(
                name="periodSeconds", type="number", default=300, unit="s", why="Shortest time between two removals"
            ),
        ),
        judge=_hasty,
    ),
)
