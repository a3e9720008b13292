"""Why a pod is not Ready, from its status and events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lab.providers.kubernetes.verdict import Manifest, condition, holds

_PULL: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CONFIG: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One reason. `rank` orders them: permanent failures come first."""

    rank: int
    text: str
    fix: str


def trouble_of(pod: Manifest, warnings: Sequence[str]) -> Trouble | None:
    """Why a pod is not Ready; None if it is, or has succeeded. `warnings`: its events, latest first."""
    status = pod.get("status") or {}
    phase = status.get("phase", "Pending")
    if phase == "Succeeded" or holds(pod, "Ready"):
        return None
    if phase == "Failed":
        why = status.get("message") or status.get("reason") or next(_exits(status), "without a reason")
        return Trouble(rank=0, text=f"failed: {why}", fix="read its container's log")
    if not pod["spec"].get("nodeName"):
        return _unscheduled(pod, warnings)
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        found = _container(container)
        if found is not None:
            return found
    if warnings and phase == "Pending":
        return Trouble(rank=2, text=warnings[0], fix="correct what the event reports")
    return Trouble(
        rank=4,
        text=f"{'still loading' if phase == 'Running' else 'scheduled, not started yet'}",
        fix="set a longer custom timeout if it only needs time, or check its readiness probe",
    )


def _unscheduled(pod: Manifest, warnings: Sequence[str]) -> Trouble:
    scheduler = str(condition(pod, "PodScheduled").get("message", ""))
    # The autoscaler's event is more specific than the scheduler's: it tells why no node can be created.
    reason = next((text for text in warnings if "scale" in text.lower()), "") or scheduler
    if "persistentvolumeclaim" in scheduler and "not found" in scheduler:
        return Trouble(rank=0, text=scheduler, fix="create the claim before the pods")
    if "unbound immediate PersistentVolumeClaims" in scheduler:
        return Trouble(rank=1, text=scheduler, fix="check why the claim is not bound")
    return Trouble(
        rank=1,
        text=f"no node: {reason}" if reason else "not scheduled yet",
        fix="check whether capacity is available (stock, quota, reservation), and whether the pod's selectors and "
        "tolerations match",
    )


def _container(container: dict[str, Any]) -> Trouble | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    name = container.get("name", "")
    if reason in _PULL:
        return Trouble(
            rank=0,
            text=f"the image of {name} cannot be pulled: {message or reason}",
            fix="correct the image's name, or grant the nodes permission to pull it",
        )
    if reason in _CONFIG:
        return Trouble(
            rank=0, text=f"{name} cannot be started: {message or reason}", fix="create the object that it refers to"
        )
    if reason == "CrashLoopBackOff" or container.get("restartCount", 0) > 0:
        ended = (container.get("lastState") or {}).get("terminated") or {}
        code = ended.get("exitCode", "unknown")
        return Trouble(
            rank=1,
            text=f"{name} restarted {container.get('restartCount', 0)} times, last exit code {code}",
            fix="read the previous container's log (kubectl logs --previous)",
        )
    return None


def _exits(status: Manifest) -> Iterator[str]:
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            yield f"{container.get('name', '')} ended with exit code {ended['exitCode']} ({ended.get('reason', 'Error')})"
