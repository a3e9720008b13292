"""Rules for autoscalers of GPU servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from facts.finding import Finding
from facts.quantities import quantity
from objects import named, namespace_of, number, of_kind, shown
from pods import fixes_replicas
from rule import Resource, Settings, StackRule, dig
from scalers import scalers
from tokens import GPU

HOLDS: Final = ("currentReplicas", "currentReplicasIfHigher")
"""Fallbacks that remove no replica. Source: keda 2.20.2, pkg/fallback; the default is `static`."""


def _silence(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        idle = number(dig(scaler.spec, "idleReplicaCount"))
        key, least = ("minReplicaCount", scaler.least) if idle is None else ("idleReplicaCount", idle)
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


def _fallback(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for scaler in scalers(resources):
        if not scaler.is_keda or not scaler.metrics:
            continue
        fallback = dig(scaler.spec, "fallback")
        behavior = dig(fallback, "behavior") or "static"
        if not scaler.least:
            if fallback is not None:
                yield scaler.found(
                    f"{named(scaler.resource)}: spec.fallback at minReplicaCount 0 restarts an empty fleet"
                )
        elif number(dig(fallback, "failureThreshold")) is None or number(dig(fallback, "replicas")) is None:
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
    for scaler in scalers(resources):
        for quota in of_kind(resources, "ResourceQuota"):
            hard, most = quantity(dig(quota.props, "spec", "hard", f"requests.{GPU}")), scaler.reachable
            if namespace_of(quota) != scaler.pod.namespace or hard is None or most is None:
                continue
            if most * scaler.pod.gpus > hard:
                yield scaler.found(
                    f"{named(scaler.resource)} may request {shown(most)} x {shown(scaler.pod.gpus)} GPUs, and {named(quota)} "
                    f"allows {shown(hard)}",
                    fix=f"at most {int(hard // scaler.pod.gpus)} replicas, or a higher quota",
                )


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
)
