"""Why an object did not become ready, and a fix, read from the cluster after a failed wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.cloud.autopilot.verdicts import verdict
from lab.control_plane.api import (
    EVENT,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    STORAGE_CLASS,
    ApiRefusedError,
    ApiUnreachableError,
    ClusterApi,
    Manifest,
)
from lab.providers.kubernetes.pod_trouble import Trouble, trouble_of
from lab.providers.kubernetes.state import ObjectRef
from lab.providers.kubernetes.verdict import condition, format_condition

MOST_PODS: Final = 50
"""Pods whose state is read: a thousand waiting pods share a few reasons."""
_QUOTA: Final = "exceeded quota"
_BEFORE_A_NODE: Final = frozenset({"FailedScheduling", "FailedScaleUp", "NotTriggerScaleUp"})
"""Event reasons that no longer apply once a pod is scheduled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A reason and its fix."""

    text: str
    fix: str


NOTHING_FOUND: Final = Diagnosis(
    text="the cluster reports no reason", fix="check the object's events and its controller's logs"
)


def diagnose(api: ClusterApi, ref: ObjectRef) -> Diagnosis:
    """The most likely reason why this object is not ready; NOTHING_FOUND if there is none."""
    try:
        one = api.get(ref.kind, ref.name, ref.namespace)
        if one is None:
            return Diagnosis(text=f"{ref} was deleted", fix="run `pulumi refresh`, then `pulumi up`")
        diagnosed = _BY_KIND.get(ref.kind.kind, _custom)
        return next(iter(diagnosed(api, one)), NOTHING_FOUND)
    except (ApiRefusedError, ApiUnreachableError) as error:
        return Diagnosis(text=f"the API server did not answer: {error}", fix="check again when it answers")


def _workload(api: ClusterApi, manifest: Manifest) -> Iterator[Diagnosis]:
    # First: while an evicted pod is replaced, the quota may briefly refuse the next one.
    yield from _evicted_pods(api, manifest)
    yield from _refused_pods(api, manifest)
    yield from _unbound_claims(api, manifest)
    yield from _pods(api, manifest)


def _evicted_pods(api: ClusterApi, manifest: Manifest) -> Iterator[Diagnosis]:
    for pod in _selected(api, POD, manifest):
        status = pod.get("status") or {}
        if status.get("phase") == "Failed" and status.get("reason") == "Evicted":
            yield Diagnosis(
                text=f"its pods are evicted: {status.get('message', '')}",
                fix="request more ephemeral-storage, or write less to the node's disk: store weights on a volume",
            )
            return


def _refused_pods(api: ClusterApi, manifest: Manifest) -> Iterator[Diagnosis]:
    """Refusals that the controller of the pods received from the API server."""
    creators = [manifest]
    if manifest["kind"] == "Deployment":
        creators = [
            found for found in _selected(api, REPLICA_SET, manifest) if _owner(found) == manifest["metadata"]["uid"]
        ]
    for creator in creators:
        for event in warnings(api, creator):
            message = str(event.get("message", ""))
            if event.get("reason") != "FailedCreate":
                continue
            if _QUOTA in message:
                yield Diagnosis(
                    text=f"the namespace's quota refuses more pods: {message}",
                    fix="raise the quota to fit the replicas, or run fewer replicas",
                )
            elif (broken := verdict(message)) is not None:
                yield Diagnosis(text=f"its pods are refused: {broken.problem} (rule {broken.policy})", fix=broken.fix)
            else:
                yield Diagnosis(text=f"its pods are refused: {message}", fix="correct the pod template")


def _unbound_claims(api: ClusterApi, manifest: Manifest) -> Iterator[Diagnosis]:
    pod = manifest if manifest["kind"] == "Pod" else manifest["spec"].get("template") or {}
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if name is None:
            continue
        claim = api.get(PERSISTENT_VOLUME_CLAIM, name, manifest["metadata"].get("namespace"))
        if claim is None:
            yield Diagnosis(text=f"claim {name}, which its pods mount, is missing", fix=f"create claim {name} first")
        elif (claim.get("status") or {}).get("phase") != "Bound":
            # A claim that waits for its pod has the pod's problem.
            yield from (found for found in _claim(api, claim) if found is not WAITS_FOR_POD)


def _pods(api: ClusterApi, manifest: Manifest) -> Iterator[Diagnosis]:
    pods = [manifest] if manifest["kind"] == "Pod" else _selected(api, POD, manifest)
    troubles: Counter[Trouble] = Counter()
    for pod in pods[:MOST_PODS]:
        placed = bool(pod["spec"].get("nodeName"))
        events = [event for event in warnings(api, pod) if not (placed and event.get("reason") in _BEFORE_A_NODE)]
        found = trouble_of(pod, [str(event.get("message", "")) for event in events])
        if found is not None:
            troubles[found] += 1
    for trouble, count in sorted(troubles.items(), key=lambda item: (item[0].rank, -item[1])):
        many = f"{count} of {len(pods)} pods" if len(pods) > 1 else "its pod"
        yield Diagnosis(text=f"{many}: {trouble.text}", fix=trouble.fix)
    if not pods and manifest["spec"].get("replicas") != 0:
        yield Diagnosis(text="it has no pods", fix="check the events of its ReplicaSet or Job")


WAITS_FOR_POD: Final = Diagnosis(
    text="the claim waits for its first pod, and was Bound or missing when the provider expected Pending",
    fix="run `pulumi up` again; an update accepts a Bound claim",
)


def _claim(api: ClusterApi, manifest: Manifest) -> Iterator[Diagnosis]:
    name, class_name = manifest["metadata"]["name"], manifest["spec"].get("storageClassName")
    found = api.get(STORAGE_CLASS, class_name) if class_name else None
    if class_name and found is None:
        yield Diagnosis(
            text=f"claim {name} has the StorageClass {class_name}, which does not exist",
            fix=f"create {class_name} before the claim, and add it to depends_on",
        )
    for event in warnings(api, manifest):
        yield Diagnosis(
            text=f"claim {name} is not bound: {event.get('message', '')}",
            fix="correct the claim or its class",
        )
    if (found or {}).get("volumeBindingMode") == "WaitForFirstConsumer":
        yield WAITS_FOR_POD
    phase = (manifest.get("status") or {}).get("phase", "")
    if phase != "Bound":
        yield Diagnosis(
            text=f"claim {name} is {phase or 'without a phase'}, and no event tells why",
            fix="check whether the class's driver is installed, and how long it takes to fill the volume",
        )


def _service(api: ClusterApi, manifest: Manifest) -> Iterator[Diagnosis]:
    selector = manifest["spec"].get("selector") or {}
    if not selector:
        yield Diagnosis(text="it has neither a selector nor endpoints", fix="annotate it with pulumi.com/skipAwait")
        return
    text = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    pods = api.list_all(POD, manifest["metadata"].get("namespace"), label_selector=text)
    ready = sum(condition(pod, "Ready").get("status") == "True" for pod in pods)
    yield Diagnosis(
        text=f"it selects {len(pods)} pods, of which {ready} are Ready",
        fix="annotate it with pulumi.com/skipAwait, or add the workload that runs its pods to depends_on",
    )


def _custom(api: ClusterApi, manifest: Manifest) -> Iterator[Diagnosis]:
    """Errors in the object's status and events."""
    status = manifest.get("status") or {}
    error = status.get("error")
    if isinstance(error, Mapping) and error.get("message"):
        yield Diagnosis(text=str(error["message"]), fix="correct what the message reports")
    for found in _conditions(status):
        if found.get("status") == "False" and (text := format_condition(found)):
            yield Diagnosis(text=f"{found.get('type')} is False: {text}", fix="correct what the condition reports")
    for event in warnings(api, manifest):
        yield Diagnosis(text=str(event.get("message", "")), fix="correct what the event reports")
    if not status:
        yield Diagnosis(
            text="its status is empty", fix="check whether the controller of this kind is installed and runs"
        )


_BY_KIND: Final[Mapping[str, Callable[[ClusterApi, Manifest], Iterator[Diagnosis]]]] = {
    **dict.fromkeys(("Deployment", "Job"), _workload),
    "PersistentVolumeClaim": _claim,
    "Service": _service,
}


def warnings(api: ClusterApi, manifest: Manifest) -> list[Manifest]:
    """Warning events about an object, the latest first."""
    metadata = manifest["metadata"]
    selector = f"involvedObject.name={metadata['name']},involvedObject.kind={manifest['kind']},type=Warning"
    found = api.list_all(EVENT, metadata.get("namespace") or "default", field_selector=selector)
    return sorted(found, key=_when, reverse=True)


def _when(event: Manifest) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _conditions(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("conditions") or ()
    for parent in status.get("parents") or ():
        yield from parent.get("conditions") or ()


def _selected(api: ClusterApi, kind: Any, manifest: Manifest) -> list[Manifest]:
    labels = (manifest["spec"].get("selector") or {}).get("matchLabels") or {}
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return api.list_all(kind, manifest["metadata"].get("namespace"), label_selector=selector) if selector else []


def _owner(manifest: Manifest) -> Any:
    return next((owner["uid"] for owner in manifest["metadata"].get("ownerReferences") or ()), None)
