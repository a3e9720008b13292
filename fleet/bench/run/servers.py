"""The servers before a measurement: all ready. Whether they are idle, the benchmark's pod asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.bench.errors import BenchmarkError

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from settings.stack import Settings

CONTAINER: Final = "vllm"
"""Source: workloads/server/pod.py."""


@dataclass(frozen=True, slots=True)
class ServerPod:
    """One server."""

    name: str
    node: str
    ready: bool


def server_pods(kubectl: Kubectl, settings: Settings) -> tuple[ServerPod, ...]:
    """Every server pod that is not terminating, by name."""
    from workloads import names

    (label, value) = next(iter(names.selector(settings.server.name).items()))
    found = kubectl.list_all("pods", selector=f"{label}={value}")
    alive = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
    alive = [pod for pod in alive if pod.get("status", {}).get("phase") in ("Pending", "Running")]
    pods = [ServerPod(pod["metadata"]["name"], pod["spec"].get("nodeName", ""), _is_ready(pod)) for pod in alive]
    return tuple(sorted(pods, key=lambda pod: pod.name))


def require_ready(pods: Sequence[ServerPod], settings: Settings) -> None:
    """Exactly the stack's number of ready servers. Raises BenchmarkError otherwise."""
    ready = sum(pod.ready for pod in pods)
    wanted = settings.server.fixed_replicas
    look = f"kubectl --namespace {settings.namespace} get pods --selector app={settings.server.name}"
    if wanted == "external":
        if not ready:
            raise BenchmarkError(f"no server is ready; check: {look}")
        return
    if ready != wanted or len(pods) != wanted:
        raise BenchmarkError(
            f"{ready} of {wanted} servers are ready{f', of {len(pods)} pods' if len(pods) != wanted else ''}; expected: {wanted}. "
            f"Wait until they are ready: {look}"
        )


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
