"""When a server pod's end has begun, and what it cuts."""

from __future__ import annotations

from lab.cloud.world import condition
from lab.control_plane.api import Manifest
from workloads.server.pod_end import DEFAULT_GRACE_SECONDS


def share_cut(request_seconds: float, left_seconds: float) -> float:
    """Share of a server's requests in flight that are cut when everything ends `left_seconds` from now.

    Under a steady load the requests in flight are of every age alike, so one that takes T seconds has more than N to go for
    T - N of them: (T - N) / T.
    """
    return max(0.0, request_seconds - max(0.0, left_seconds)) / request_seconds


def grace_left(pod: Manifest, notice_seconds: float) -> float | None:
    """Grace of a pod whose end has begun; None while it has not. A notice's is what its node leaves, a deletion's is what was asked for."""
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        given = metadata.get("deletionGracePeriodSeconds")
        return float(DEFAULT_GRACE_SECONDS if given is None else given)
    return notice_seconds if _under_notice(pod) else None


def _under_notice(pod: Manifest) -> bool:
    """Whether the kubelet is ending the pod because its node goes: the condition it writes, before the pod has Failed."""
    if condition(pod, "DisruptionTarget") != "True":
        return False
    reasons = [one.get("reason") for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    return "TerminationByKubelet" in reasons
