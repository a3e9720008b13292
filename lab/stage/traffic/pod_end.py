"""The end of a server pod by its manifest: how long it answers, and when its streams are cut.

vLLM's part of this (docs/decisions/07-server.md): at the stop signal it aborts what is running, unless it has one API server and a
`--shutdown-timeout`. With several API servers, the default under data parallelism, only the sleep before the signal saves
a stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lab.cloud.world import condition
from lab.control_plane.api import Manifest

DEFAULT_GRACE_SECONDS: Final = 30
"""Source: Kubernetes API, PodSpec.terminationGracePeriodSeconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnd:
    """Phases of a pod's end, in simulated seconds."""

    accept_seconds: float
    """The server accepts requests until then: the preStop sleep."""
    finish_seconds: float
    """After the signal, time for open requests to finish; new ones are refused."""

    @property
    def stream_seconds(self) -> float:
        """How long a stream that is open at the start may continue."""
        return self.accept_seconds + self.finish_seconds


def pod_end(pod: Manifest, *, grace_seconds: float | None = None) -> PodEnd:
    """The end of a pod with this manifest, optionally with a shorter grace period."""
    spec = pod["spec"]
    asked = spec.get("terminationGracePeriodSeconds")
    grace = float(DEFAULT_GRACE_SECONDS if asked is None else asked)
    if grace_seconds is not None:
        grace = min(grace, grace_seconds)
    container = spec["containers"][0]
    sleep = ((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {}
    accept = min(grace, float(sleep.get("seconds", 0)))
    return PodEnd(accept_seconds=accept, finish_seconds=min(grace - accept, _shutdown_timeout(container)))


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


def _shutdown_timeout(container: Mapping[str, Any]) -> float:
    words: Sequence[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
    options = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    ranks = int(options.get("--data-parallel-size", 1))
    # The module `vllm.entrypoints.openai.api_server` is one API server whatever the options say.
    servers = int(options.get("--api-server-count", ranks)) if "serve" in words else 1
    return float(options.get("--shutdown-timeout", 0)) if servers == 1 else 0.0
