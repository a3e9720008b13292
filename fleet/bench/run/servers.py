"""Checks of the servers before a measurement: all ready, no other traffic."""

from __future__ import annotations

import http.client
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.bench.errors import BenchmarkError
from fleet.clients.errors import LiveError
from fleet.clients.metrics_text import MetricsText, MetricsTextError, parse
from fleet.clients.side_by_side import side_by_side

if TYPE_CHECKING:
    from fleet.clients.kubectl import Kubectl
    from settings.stack import Settings

CONTAINER: Final = "vllm"
"""Source: workloads/server/pod.py."""
WATCH_SECONDS: Final = 3.0
"""Between two readings of the counters. Assumed: a server in use sends or receives a token in that time."""
_IN_FLIGHT: Final = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_TOKENS: Final = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")
_AT_ONCE: Final = 12
"""Port forwards at the same time. Assumed."""
_SECONDS: Final = 20.0


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


def require_idle(kubectl: Kubectl, pods: Sequence[ServerPod], port: int) -> str | None:
    """No requests on any server, by its metrics. Raises BenchmarkError where there are some; returns why it is unknown, or None."""
    readings = side_by_side(lambda pod: _traffic(kubectl, pod.name, port), pods, _AT_ONCE)
    busy = [f"{pod.name} {what}" for pod, (what, _) in zip(pods, readings, strict=True) if what]
    if busy:
        raise BenchmarkError(
            f"the servers are not idle: {'; '.join(busy[:4])}{' and others' if len(busy) > 4 else ''}. Other requests and the "
            "benchmark slow each other down. Stop that traffic and run again"
        )
    troubles = [trouble for _, trouble in readings if trouble]
    return troubles[0] if troubles else None


def _traffic(kubectl: Kubectl, pod: str, port: int) -> tuple[str, str]:
    """Activity of a server, and why it is unknown; both empty on an idle server."""
    try:
        with kubectl.port_forward(f"pod/{pod}", port) as local:
            first = _scrape(local)
            if in_flight := _sum(first, _IN_FLIGHT):
                return f"has {in_flight:.0f} requests in flight", ""
            time.sleep(WATCH_SECONDS)
            second = _scrape(local)
    except (LiveError, OSError, MetricsTextError, http.client.HTTPException) as error:
        return "", f"{pod}: {error or type(error).__name__}"
    if in_flight := _sum(second, _IN_FLIGHT):
        return f"has {in_flight:.0f} requests in flight", ""
    tokens = _sum(second, _TOKENS) - _sum(first, _TOKENS)
    return f"had {tokens:.0f} tokens in {WATCH_SECONDS:.0f} s" if tokens > 0 else "", ""


def _sum(metrics: MetricsText, names: Sequence[str]) -> float:
    return sum(metrics.total(name) or 0.0 for name in names)


def _scrape(port: int) -> MetricsText:
    # Straight to loopback, whatever proxy the environment names.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/metrics", timeout=_SECONDS) as response:
        return parse(response.read().decode(errors="replace"))


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
