"""Rules for what Pulumi waits for: conditions, Services, standbys, timeouts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final

from objects import cluster_wide, named, number, of_kind
from pods import Pod, pods
from routing import RELEASE, pools
from rule import Finding, Resource, Rule, Settings, StackRule, dig, mapped
from rules.order import SKIP_AWAIT, WAIT_FOR, annotation, awaited_services, group, is_awaited, pods_of
from rules.rollout import DEFAULT_SURGE, DEFAULT_UNAVAILABLE, budget_seconds, count

AWAIT_SECONDS: Final = 600
"""Pulumi's default timeout. Source: pulumi-kubernetes 4, provider/pkg/await/await.go."""
CLAIM_MINUTES: Final = 5
"""For a claim, whatever its custom timeouts. Source: pulumi-kubernetes 4, provider/pkg/await/awaiters.go."""
TIMEOUT: Final = "pulumi.com/timeoutSeconds"
"""Counts where the resource has no custom timeout. Source: pulumi-kubernetes 4, provider/pkg/metadata/overrides.go."""
_PATH: Final = re.compile(r"jsonpath=\{.+\}(=.+)?")
_CONDITIONS: Final[Mapping[tuple[str, str], frozenset[str]]] = {
    ("apps", "Deployment"): frozenset({"Available", "Progressing", "ReplicaFailure"}),
    ("batch", "Job"): frozenset({"Complete", "Failed", "Suspended", "SuccessCriteriaMet", "FailureTarget"}),
    ("gateway.networking.k8s.io", "Gateway"): frozenset(
        {"Accepted", "Programmed", "Scheduled", "Ready", "ResolvedRefs"}
    ),
    ("gateway.networking.k8s.io", "HTTPRoute"): frozenset(),
    ("inference.networking.k8s.io", "InferencePool"): frozenset(),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"): frozenset(),
}
"""Conditions under status.conditions by API group and kind; other kinds may have any. Source: Kubernetes 1.36; Gateway API 1.4;
external-snapshotter 8."""
_PER_PARENT: Final = ("HTTPRoute", "InferencePool")
_ELECTION: Final = "ha-enable-leader-election"
"""Option of an endpoint picker. Source: gateway-api-inference-extension 1.4."""


def _never_met(resource: Resource, _: Settings) -> Iterator[Finding]:
    written = annotation(resource, WAIT_FOR) if resource.is_kubernetes and is_awaited(resource) else None
    for expression in _expressions(written) if written else ():
        kind, _equals, rest = expression.partition("=")
        condition, known = rest.partition("=")[0], _CONDITIONS.get((group(resource), resource.kind))
        if kind != "condition":
            if not _PATH.fullmatch(expression):
                yield Finding(what=f"{WAIT_FOR} is {expression}, which the provider refuses")
        # A name with a slash is a controller's own.
        elif known is not None and condition not in known and "/" not in condition:
            path = f'jsonpath={{.status.parents[0].conditions[?(@.type=="{condition}")].status}}=True'
            per_parent = resource.kind in _PER_PARENT
            there_are = "under status.parents" if per_parent else ", ".join(sorted(known)) or "none"
            yield Finding(
                what=f"{WAIT_FOR} is {expression}; conditions of {resource.kind}: {there_are}",
                fix=path if per_parent else "",
            )


def _expressions(written: str) -> tuple[str, ...]:
    try:
        several = json.loads(written)
    except ValueError:
        several = None
    return tuple(map(str, several)) if isinstance(several, list) else (written,)


def _no_pod(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    charts = any(one.type.startswith("kubernetes:helm.sh/") for one in resources)
    for service in awaited_services(resources):
        behind = pods_of(service, resources)
        if not behind and not charts:
            yield Finding(what=f"{named(service)} selects no pod of the stack", urn=service.urn)
        elif behind and not any(pod.replicas for pod in behind):
            yield Finding(
                what=f"{named(service)} selects the pods of {named(behind[0].resource)}, which has 0 replicas",
                urn=service.urn,
            )


def _standbys(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for pool in pools(resources):
        picker = pool.picker
        if picker is None or picker.replicas < 2:
            continue
        of_chart = pool.resource.type == RELEASE
        # The chart turns the election on for several replicas.
        awaited = dig(pool.resource.props, "skipAwait") is not True if of_chart else is_awaited(picker.resource)
        if awaited and (of_chart or any(_elects(pod) for pod in pods(picker.resource))):
            yield Finding(
                what=f"Pulumi waits for {picker.replicas} endpoint pickers of {named(picker.resource)}, and one is ready",
                urn=picker.resource.urn,
            )


def _elects(pod: Pod) -> bool:
    words = {word.lstrip("-") for container in pod.containers for word in container.words}
    return not words.isdisjoint((_ELECTION, f"{_ELECTION}=true"))


def _restored(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    classes = cluster_wide(resources, "StorageClass")
    for claim in of_kind(resources, "PersistentVolumeClaim"):
        spec = dig(claim.props, "spec")
        storage_class = classes.get(str(dig(spec, "storageClassName") or ""))
        if storage_class is None or dig(storage_class.props, "volumeBindingMode") == "WaitForFirstConsumer":
            continue  # Ready while it waits for a pod, or unknown: GKE's own classes wait, too.
        source = mapped(dig(spec, "dataSource") or dig(spec, "dataSourceRef"))
        if source and is_awaited(claim):
            yield Finding(
                what=f"Pulumi waits {CLAIM_MINUTES} minutes for {named(claim)} to be filled from {dig(source, 'kind')} "
                f"{dig(source, 'name')}",
                urn=claim.urn,
            )


def _too_short(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.kind not in ("Deployment", "StatefulSet", "Job") or not is_awaited(resource):
        return
    for pod in pods(resource):
        start = max((budget_seconds(probe) for probe in _startup_probes(pod)), default=0.0)
        steps = _steps(pod)
        needed = {
            "create": (start, f"its startup probe allows {start / 60:g}"),
            "update": (
                start * steps,
                f"a rollout of {steps} steps by its startup probe takes up to {start * steps / 60:g}",
            ),
        }
        if resource.kind == "Job":
            deadline = number(dig(resource.props, "spec", "activeDeadlineSeconds")) or 0
            needed = {"create": (deadline, f"activeDeadlineSeconds allows {deadline / 60:g}")}
        for operation, (seconds, why) in needed.items():
            given = resource.timeouts.get(operation) or _whole(annotation(resource, TIMEOUT)) or AWAIT_SECONDS
            if seconds > given:
                yield Finding(
                    what=f"Pulumi waits {given / 60:g} minutes for the {operation}, and {why}",
                    fix=f"custom_timeouts: {operation} {ceil(seconds / 60)}m or more",
                )


def _startup_probes(pod: Pod) -> Iterator[Any]:
    for container in pod.containers:
        probe = dig(container.props, "startupProbe")
        if mapped(probe):
            yield probe


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch("[0-9]{1,9}", text) else None


def _steps(pod: Pod) -> int:
    """How many times a rollout waits for new pods."""
    strategy = dig(pod.resource.props, "spec", "strategy")
    if pod.resource.kind != "Deployment" or dig(strategy, "type") == "Recreate" or pod.replicas < 1:
        return 1
    at_once = 0
    for key, default, up in (("maxSurge", DEFAULT_SURGE, True), ("maxUnavailable", DEFAULT_UNAVAILABLE, False)):
        written = dig(strategy, "rollingUpdate", key)
        at_once += count(default if written is None else written, pod.replicas, up=up) or 0
    return ceil(pod.replicas / max(1, at_once))


RULES: Final = (
    Rule(
        name="condition-never-met",
        subject="rollout",
        statement=f"{WAIT_FOR} is an expression that can become true.",
        evidence="the provider refuses an expression without condition= or jsonpath={...}, and waits for a condition that no "
        "controller sets until its timeout. Source: pulumi-kubernetes 4, provider/pkg/metadata/overrides.go, and the APIs of the "
        "kinds. Mandatory: the update fails though the object is sound",
        fix="condition=<one of its conditions>, or jsonpath={.status.field}=value",
        level="mandatory",
        severity="high",
        judge=_never_met,
    ),
    StackRule(
        name="service-awaits-no-pod",
        subject="rollout",
        statement="A Service that Pulumi waits for has pods.",
        evidence=f"a new Service without a ready pod fails the update after {AWAIT_SECONDS // 60} minutes. Source: pulumi-kubernetes 4, "
        "provider/pkg/await/service.go. Advisory: one that exists and does not change is not waited for, and others may make the pods",
        fix=f'{SKIP_AWAIT}: "true" in the annotations of the Service',
        level="advisory",
        severity="medium",
        judge=_no_pod,
    ),
    StackRule(
        name="epp-standbys-awaited",
        subject="rollout",
        statement="Pulumi does not wait for several endpoint pickers that elect a leader.",
        evidence="only the leader is ready, so that a wait for all of them ends at its timeout. Source: gateway-api-inference-extension "
        "1.4, its chart and health check; helm 3, pkg/kube/ready.go. Mandatory: the update fails though the fleet serves",
        fix=f'skipAwait: true on the release ({SKIP_AWAIT}: "true" on a Deployment), or one picker',
        level="mandatory",
        severity="high",
        judge=_standbys,
    ),
    StackRule(
        name="restored-claim-awaited",
        subject="storage",
        statement="Pulumi does not wait for a volume that is filled from an image, a snapshot or another volume.",
        evidence=f"it gives up on a claim after {CLAIM_MINUTES} minutes, whatever its custom timeouts, and a large volume takes longer to "
        "fill. Source: pulumi-kubernetes 4, provider/pkg/await/awaiters.go, and its issue 4179. Advisory: a small one is filled in time",
        fix=f'{SKIP_AWAIT}: "true" in the annotations of the claim: its pods wait for the volume anyway',
        level="advisory",
        severity="medium",
        judge=_restored,
    ),
    Rule(
        name="timeout-below-start",
        subject="rollout",
        statement="Pulumi waits as long as a start, a rollout or a Job may take.",
        evidence=f"by default it waits {AWAIT_SECONDS // 60} minutes; then the update fails while servers are still loading, and what "
        "depends on them is not made. Source: pulumi-kubernetes 4, provider/pkg/await/await.go. Advisory: the pods go on, and so does "
        "the next update",
        fix="custom_timeouts with create and update above the startup probe's time",
        level="advisory",
        severity="medium",
        judge=_too_short,
    ),
)
