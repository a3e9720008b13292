"""Disaggregated prefill in a server pod: options of rank_servers.py, and the container of vllm-router. Creates no resource.

The servers listen on the pod's loopback address, each with GPUs of its own, all in one container: containers do not see each other's
GPUs. The router needs none. docs/decisions/07-server.md gives the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from facts.sizing import POD_ROUTER_DISK_GIB
from settings.derived.drain import Drain
from settings.sections.shape import POD_ROUTER_CPU, POD_ROUTER_MEMORY_GIB, Shape
from workloads import names, vllm_router
from workloads.server import api_key

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, HTTPGetActionArgsDict, VolumeArgsDict, VolumeMountArgsDict

CONTAINER: Final = "vllm-router"
HOST: Final = "--host=127.0.0.1"
"""Of every engine: only the router, in the same pod, reaches it."""
_TMP: Final = "router-tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The servers of a pod."""

    prefill: tuple[int, ...]
    """Ports of the prefill engines."""
    decode: tuple[int, ...]
    """Ports of the decode engines."""


def split(shape: Shape, tensor_parallel_size: int) -> Split:
    """The servers of a shape, each on so many GPUs."""
    counts = (shape.prefill_gpus // tensor_parallel_size, shape.decode_gpus // tensor_parallel_size)
    ports = range(names.FIRST_ENGINE_PORT, names.FIRST_ENGINE_PORT + sum(counts))
    return Split(prefill=tuple(ports[: counts[0]]), decode=tuple(ports[counts[0] :]))


def options(found: Split, drain: Drain) -> list[str]:
    """Options of rank_servers.py beside those of ranks."""
    return [
        f"--prefill={len(found.prefill)}",
        f"--router={names.HTTP_PORT},{names.POD_ROUTER_METRICS_PORT}",
        f"--drain={drain.after_signal_seconds}",
    ]


def container(
    shape: Shape, found: Split, drain: Drain, *, startup_minutes: int, period_seconds: int, has_key: bool
) -> ContainerArgsDict:
    """The router's container. Its readiness is the pod's, together with the servers'. `has_key`: whether the servers check the API key,
    which the router then sends in the place of a client's.
    """
    router, run = (
        shape.router,
        vllm_router.pod_command(found.prefill, found.decode, startup_seconds=startup_minutes * 60),
    )
    if has_key:
        run = api_key.command_with_key(vllm_router.KEY_VARIABLE, run)
    mounts: list[VolumeMountArgsDict] = [{"name": _TMP, "mount_path": "/tmp"}]
    if has_key:
        mounts.append(api_key.mount())
    amounts = {
        "cpu": str(POD_ROUTER_CPU),
        "memory": f"{POD_ROUTER_MEMORY_GIB}Gi",
        "ephemeral-storage": f"{POD_ROUTER_DISK_GIB}Gi",
    }
    alive: HTTPGetActionArgsDict = {"path": vllm_router.LIVE_PATH, "port": names.HTTP_PORT_NAME}
    spec: ContainerArgsDict = {
        "name": CONTAINER,
        # Its name has a registry, so the stack's Docker Hub prefix is not added.
        "image": router.image,
        "command": [*run],
        "ports": [{"name": names.HTTP_PORT_NAME, "container_port": names.HTTP_PORT, "protocol": "TCP"}],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "security_context": {
            "allow_privilege_escalation": False,
            "capabilities": {"drop": ["ALL"]},
            "read_only_root_filesystem": True,
        },
        "volume_mounts": mounts,
        # It listens when all servers answer.
        "startup_probe": {
            "http_get": alive,
            "period_seconds": period_seconds,
            "timeout_seconds": 5,
            "failure_threshold": startup_minutes * 60 // period_seconds + 1,
        },
        "readiness_probe": {
            "http_get": {"path": vllm_router.HEALTH_PATH, "port": names.HTTP_PORT_NAME},
            "period_seconds": period_seconds,
            "timeout_seconds": 10,
            "failure_threshold": 3,
        },
        "liveness_probe": {
            "http_get": alive,
            "period_seconds": period_seconds,
            "timeout_seconds": 10,
            "failure_threshold": 3,
            "termination_grace_period_seconds": 5,
        },
    }
    if drain.pre_stop_seconds > 0:
        spec["lifecycle"] = {"pre_stop": {"sleep": {"seconds": drain.pre_stop_seconds}}}
    return spec


def volume() -> VolumeArgsDict:
    """The router's writable folder."""
    return {"name": _TMP, "empty_dir": {}}
