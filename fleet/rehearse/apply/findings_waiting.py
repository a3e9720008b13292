"""Findings about waits: objects that never become ready, or not within Pulumi's timeout."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fleet.rehearse.apply.await_custom import condition_of, path_of
from fleet.rehearse.apply.catalogue import Catalogue, Entry
from fleet.rehearse.apply.findings_order import waits_for_pods
from fleet.rehearse.apply.json_path import JsonPathError
from fleet.rehearse.apply.options import custom_timeout_seconds
from fleet.rehearse.apply.readiness import rule_for
from fleet.rehearse.results import Finding

GPU: Final = "requests.nvidia.com/gpu"

# Conditions that controllers set on `status.conditions`; a kind that is not listed may have any.
# Source: Kubernetes 1.36 API; Gateway API 1.4; external-snapshotter 8; GKE's definitions in the facts of this project.
_CONDITIONS: Final[Mapping[str, frozenset[str]]] = {
    "Deployment": frozenset({"Available", "Progressing", "ReplicaFailure"}),
    "Job": frozenset({"Complete", "Failed", "Suspended", "SuccessCriteriaMet", "FailureTarget"}),
    "PersistentVolumeClaim": frozenset({"Resizing", "FileSystemResizePending", "ModifyVolumeError", "ModifyingVolume"}),
    "Gateway": frozenset({"Accepted", "Programmed", "Scheduled", "Ready", "ResolvedRefs"}),
    "HTTPRoute": frozenset(),
    "InferencePool": frozenset(),
    "VolumeSnapshot": frozenset(),
    "VolumeSnapshotClass": frozenset(),
    "StorageClass": frozenset(),
    "ConfigMap": frozenset(),
    "ServiceAccount": frozenset(),
}
_PER_PARENT: Final = frozenset({"HTTPRoute", "InferencePool"})
_LEADER_FLAGS: Final = ("leader-election", "leader-elect")


def findings(catalogue: Catalogue) -> Iterator[Finding]:
    """Conditions that are never set, standby replicas, Services before their pods, quotas, timeouts shorter than the start."""
    for entry in catalogue.entries:
        yield from _wait_for(entry)
        yield from _standby(entry)
        if waits_for_pods(entry):
            yield from _timeout(entry)
    for service in catalogue.of_kind("Service"):
        if rule_for(service.manifest, service.options) and not service.of_chart:
            yield from _service(service, catalogue)
    for quota in catalogue.of_kind("ResourceQuota"):
        yield from _quota(quota, catalogue)


def _wait_for(entry: Entry) -> Iterator[Finding]:
    for expression in entry.options.wait_for:
        asked = condition_of(expression)
        if asked is None:
            try:
                path_of(expression)
            except JsonPathError as error:
                yield _never_true(entry, f"{expression} cannot be evaluated: {error}", "use the syntax of kubectl wait")
            continue
        known = _CONDITIONS.get(entry.kind)
        if known is None or asked[0] in known:
            continue
        where = (
            "its conditions are under status.parents"
            if entry.kind in _PER_PARENT
            else f"{entry.kind} conditions: {', '.join(sorted(known)) or 'none'}"
        )
        path = f'jsonpath={{.status.parents[0].conditions[?(@.type=="{asked[0]}")].status}}={asked[1]}'
        fix = (
            f"wait for {path}"
            if entry.kind in _PER_PARENT
            else "wait for a condition or a status field that a controller sets"
        )
        yield _never_true(entry, f"no controller sets the condition {asked[0]}; {where}", fix)


def _never_true(entry: Entry, why: str, fix: str) -> Finding:
    return Finding(
        severity="error",
        subject=entry.resource.urn,
        message=f"pulumi.com/waitFor of {entry.title} never becomes true: {why}",
        fix=fix,
    )


def _standby(entry: Entry) -> Iterator[Finding]:
    """Replicas that elect a leader: all but one are never Ready, so waiting for them does not end."""
    replicas = (entry.manifest.get("spec") or {}).get("replicas", 1)
    if entry.kind != "Deployment" or not isinstance(replicas, int) or replicas < 2 or not _elects_leader(entry):
        return
    awaited = not entry.resource.inputs.get("skipAwait") if entry.of_chart else not entry.options.skip_await
    if awaited:
        who = f"the release {entry.resource.name}" if entry.of_chart else entry.title
        yield Finding(
            severity="error",
            subject=entry.resource.urn,
            message=f"{entry.title} runs {replicas} replicas that elect a leader; the standbys are not Ready while the leader "
            f"runs, so Pulumi waits for {who} until its timeout",
            fix="set skip_await on the release (pulumi.com/skipAwait on a Deployment), or run one replica",
        )


def _elects_leader(entry: Entry) -> bool:
    pod = entry.pod or {}
    for container in (pod.get("spec") or {}).get("containers") or ():
        words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
        for index, word in enumerate(words):
            flag, _, value = word.lstrip("-").partition("=")
            if word.startswith("-") and flag.endswith(_LEADER_FLAGS):
                given = value or (words[index + 1] if index + 1 < len(words) else "")
                return given.lower() != "false"
    return False


def _timeout(entry: Entry) -> Iterator[Finding]:
    """Compare Pulumi's timeout with the time that the object's probes and deadlines allow."""
    rule = rule_for(entry.manifest, entry.options)
    if rule is None:
        return
    for operation in ("create", "update"):
        given = custom_timeout_seconds(entry.resource, operation)
        limit = given or rule.seconds
        needed, why = _needed_seconds(entry, operation)
        if needed > limit:
            source = "custom timeout" if given else "default timeout"
            yield Finding(
                severity="error" if operation == "create" else "warning",
                subject=entry.resource.urn,
                message=f"the {operation} of {entry.title} has a {source} of {_minutes(limit)}, but {why}: Pulumi reports a "
                "failure while it is still starting",
                fix=f"set custom_timeouts {operation} to {math.ceil(needed / 60)}m or more",
            )


def _needed_seconds(entry: Entry, operation: str) -> tuple[float, str]:
    spec = entry.manifest.get("spec") or {}
    if entry.kind == "Job":
        deadline = float(spec.get("activeDeadlineSeconds") or 0)
        return deadline, f"the Job may run {_minutes(deadline)} (activeDeadlineSeconds)"
    start = startup_seconds(entry.pod or {})
    if entry.kind != "Deployment" or operation == "create":
        return start, f"its startup probe allows {_minutes(start)}"
    batches = _batches(spec)
    return start * batches, f"a rollout takes {batches} steps of up to {_minutes(start)} by its startup probe"


def startup_seconds(pod: Mapping[str, Any]) -> float:
    """Time that the startup probes allow: containers start together, so the longest counts."""
    longest = 0.0
    for container in (pod.get("spec") or {}).get("containers") or ():
        probe = container.get("startupProbe")
        if probe:
            tries = probe.get("failureThreshold", 3) * probe.get("periodSeconds", 10)
            longest = max(longest, float(probe.get("initialDelaySeconds", 0) + tries))
    return longest


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} min"


def _batches(spec: Mapping[str, Any]) -> int:
    replicas = int(spec.get("replicas", 1))
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate" or not replicas:
        return 1
    rolling = strategy.get("rollingUpdate") or {}
    at_once = 0
    for key, up in (("maxSurge", True), ("maxUnavailable", False)):
        value = rolling.get(key, "25%")
        if isinstance(value, str):
            share = replicas * int(value.rstrip("%")) / 100
            value = math.ceil(share) if up else math.floor(share)
        at_once += value
    return math.ceil(replicas / max(1, at_once))


def _service(service: Entry, catalogue: Catalogue) -> Iterator[Finding]:
    """Services without a pod to wait for."""
    spec = service.manifest.get("spec") or {}
    if spec.get("clusterIP") == "None":
        return
    selector = spec.get("selector") or {}
    fix = 'annotate the Service with pulumi.com/skipAwait: "true"'
    behind = [one for one in catalogue.entries if _selected(one, selector, service.namespace)]
    if not behind:
        yield _service_without_pod(service, "no pod of the program has the labels that it selects", fix, "warning")
    elif all((one.manifest.get("spec") or {}).get("replicas") == 0 for one in behind):
        yield _service_without_pod(service, f"{behind[0].title}, which it selects, has zero replicas", fix)
    elif all(one.resource.urn != service.resource.urn and catalogue.comes_after(one, service) for one in behind):
        yield _service_without_pod(service, f"{behind[0].title}, which it selects, is created only after it", fix)


def _service_without_pod(service: Entry, why: str, fix: str, severity: str = "error") -> Finding:
    return Finding(
        severity="warning" if severity == "warning" else "error",
        subject=service.resource.urn,
        message=f"Pulumi waits for a ready pod behind {service.title}, and {why}",
        fix=fix,
    )


def _selected(entry: Entry, selector: Mapping[str, Any], namespace: str) -> bool:
    labels = ((entry.pod or {}).get("metadata") or {}).get("labels") or {}
    if entry.pod is None or entry.namespace != namespace or entry.kind == "Job":
        return False
    return all(labels.get(key) == value for key, value in selector.items())


def _quota(quota: Entry, catalogue: Catalogue) -> Iterator[Finding]:
    """Workloads that request more GPUs than the namespace's quota: the last pods are refused, and Pulumi waits for them."""
    hard = ((quota.manifest.get("spec") or {}).get("hard") or {}).get(GPU)
    if hard is None or not str(hard).isdigit():
        return
    asked = [
        (entry, gpus(entry))
        for entry in catalogue.of_kind("Deployment")
        if entry.namespace == quota.namespace and waits_for_pods(entry)
    ]
    total = sum(count for _, count in asked)
    if total > int(hard):
        names = ", ".join(entry.title for entry, count in asked if count)
        yield Finding(
            severity="error",
            subject=quota.resource.urn,
            message=f"{names}: {total} GPUs requested, but {quota.title} allows {hard}: the remaining pods are refused, and "
            "Pulumi waits for them until its timeout",
            fix=f"raise {GPU} to {total}, or run fewer replicas",
        )


def gpus(entry: Entry) -> int:
    """GPUs requested by all replicas of a workload."""
    replicas = (entry.manifest.get("spec") or {}).get("replicas", 1)
    total = 0
    for container in ((entry.pod or {}).get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        total += int(amounts.get("nvidia.com/gpu", 0))
    return total * int(replicas)
