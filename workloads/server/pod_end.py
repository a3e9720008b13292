"""The end of a server pod by its manifest: how long it answers, and when its streams are cut.

vLLM's part of this (docs/decisions/07-server.md): at the stop signal it aborts what is running, unless it has one API server and a
`--shutdown-timeout`. With several API servers, the default under data parallelism, only the sleep before the signal saves
a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workloads.server.ranks import PROGRAM

DEFAULT_GRACE_SECONDS: Final = 30
"""Source: Kubernetes API, PodSpec.terminationGracePeriodSeconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEnd:
    """Phases of a pod's end, in seconds."""

    accept_seconds: float
    """The server accepts requests until then: the preStop sleep."""
    finish_seconds: float
    """After the signal, time for open requests to finish; new ones are refused."""

    @property
    def stream_seconds(self) -> float:
        """How long a stream that is open at the start may continue."""
        return self.accept_seconds + self.finish_seconds


def pod_end(spec: Mapping[str, Any], *, grace_seconds: float | None = None) -> PodEnd:
    """The end of a pod with this spec, optionally with a shorter grace period."""
    asked = spec.get("terminationGracePeriodSeconds")
    grace = float(DEFAULT_GRACE_SECONDS if asked is None else asked)
    if grace_seconds is not None:
        grace = min(grace, grace_seconds)
    container = spec["containers"][0]
    sleep = ((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {}
    accept = min(grace, float(sleep.get("seconds", 0)))
    return PodEnd(accept_seconds=accept, finish_seconds=min(grace - accept, _shutdown_timeout(container)))


def _shutdown_timeout(container: Mapping[str, Any]) -> float:
    command = (*(container.get("command") or ()), *(container.get("args") or ()))
    words = [word for word in command if isinstance(word, str)]  # in a preview, one may be unknown
    options = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    ranks = int(options.get("--data-parallel-size", 1))
    # One server per rank, each with one API server.
    if any(word.endswith(PROGRAM) for word in words):
        return float(options.get("--shutdown-timeout", 0))
    # The module `vllm.entrypoints.openai.api_server` is one API server whatever the options say.
    servers = int(options.get("--api-server-count", ranks)) if "serve" in words else 1
    return float(options.get("--shutdown-timeout", 0)) if servers == 1 else 0.0
