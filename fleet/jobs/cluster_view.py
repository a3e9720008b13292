"""State of a launch in the cluster: its Job, its pods, and why they wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from fleet.clients.errors import LiveError
from fleet.jobs.job import ended

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl

JOB_LABEL: Final = "batch.kubernetes.io/job-name"
Stage = Literal["no pods", "unscheduled", "starting", "preparing", "running", "ended"]
"""`starting`: the node exists, images and volumes are not ready; `preparing`: tokenizer and dataset are downloaded."""
_ORDER: Final[tuple[Stage, ...]] = ("unscheduled", "starting", "preparing", "running", "ended")
_BAD_WAITS: Final = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError", "CreateContainerError", "InvalidImageName"}
)
"""Source: kubelet, container waiting reasons. Such a container may wait forever."""
_SCALE_UP: Final = frozenset({"TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp"})
"""Source: cluster autoscaler, events on pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failed container."""

    pod: str
    container: str
    why: str
    """Exit code and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """State at one time."""

    ended: str | None
    """As `launch.ended`."""
    gone: bool
    """Whether the Job no longer exists."""
    stage: Stage
    """Phase of the pod furthest behind."""
    pods: int
    """Existing pods."""
    why: str
    """Why it waits; empty if unknown."""
    failures: tuple[Failure, ...]


def look(kubectl: Kubectl, job: str) -> ClusterView:
    """The Job, its pods, and the newest reason to wait. Raises LiveError."""
    found = kubectl.find("job", job)
    if found is None:
        return ClusterView(ended=None, gone=True, stage="no pods", pods=0, why="", failures=())
    pods = kubectl.list_all("pods", selector=f"{JOB_LABEL}={job}")
    stages = {pod["metadata"]["name"]: stage_of(pod) for pod in pods}
    stage: Stage = min(stages.values(), key=_ORDER.index) if stages else "no pods"
    over = ended(found)
    why = ""
    if over is None and stage in ("no pods", "unscheduled", "starting", "preparing"):
        behind = next((pod for pod in pods if stages[pod["metadata"]["name"]] == stage), None)
        why = _why(kubectl, job if behind is None else behind["metadata"]["name"], behind)
    return ClusterView(ended=over, gone=False, stage=stage, pods=len(pods), why=why, failures=tuple(_failures(pods)))


def stage_of(pod: Mapping[str, Any]) -> Stage:
    """Phase of one pod."""
    status = pod.get("status", {})
    phase = status.get("phase", "Pending")
    if phase in ("Succeeded", "Failed"):
        return "ended"
    if phase == "Running":
        return "running"
    if not pod["spec"].get("nodeName"):
        return "unscheduled"
    if any("running" in one.get("state", {}) for one in status.get("initContainerStatuses") or ()):
        return "preparing"
    return "starting"


def last_words(kubectl: Kubectl, failure: Failure) -> str:
    """The last eight log lines of a container. Raises LiveError."""
    return kubectl.logs(failure.pod, failure.container, lines=8).strip()


def failure_lines(kubectl: Kubectl, failures: Sequence[Failure]) -> Iterator[str]:
    """Each failed container, with the end of its log."""
    for failure in failures:
        yield f"  {failure.pod}, container {failure.container}: {failure.why}"
        try:
            yield from (f"    {line}" for line in last_words(kubectl, failure).splitlines())
        except LiveError as error:
            yield f"    its log cannot be read: {error}"


def _why(kubectl: Kubectl, name: str, pod: Mapping[str, Any] | None) -> str:
    """The newest event with a reason, or the kubelet's or scheduler's condition, or nothing."""
    if pod is not None:
        for container in _containers(pod):
            waiting = container.get("state", {}).get("waiting") or {}
            if waiting.get("reason") in _BAD_WAITS:
                return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    events = _events(kubectl, name)
    telling = [event for event in events if event.get("type") == "Warning" or event.get("reason") in _SCALE_UP]
    if telling:
        newest = max(telling, key=_moment)
        return f"{newest.get('reason')}: {' '.join(str(newest.get('message', '')).split())}"
    for condition in (pod or {}).get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and condition.get("message"):
            return f"{condition.get('reason')}: {condition['message']}"
    return ""


def _events(kubectl: Kubectl, name: str) -> list[dict[str, Any]]:
    """Events of one object; none without permission to read them."""
    try:
        return kubectl.list_all("events", fields=f"involvedObject.name={name}")
    except LiveError as error:
        if error.reason == "forbidden":
            return []
        raise


def _moment(event: Mapping[str, Any]) -> str:
    # ISO 8601 with the same offset sorts by time.
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def _containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _failures(pods: Sequence[Mapping[str, Any]]) -> Iterator[Failure]:
    for pod in pods:
        for container in _containers(pod):
            over = container.get("state", {}).get("terminated")
            if over and over.get("exitCode"):
                reason = over.get("reason", "")
                why = f"exit code {over['exitCode']}" + (f" ({reason})" if reason not in ("", "Error") else "")
                yield Failure(pod=pod["metadata"]["name"], container=container["name"], why=why)
