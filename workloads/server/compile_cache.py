"""Compile caches that outlive a pod, as parts of the server's pod: the start that restores them, the container that stores them.

What runs in the pod is keep_compile_cache.py; docs/decisions/0058-compile-caches.md says who may write what, and why that is safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from workloads import pod_programs
from workloads.names import HTTP_PORT

if TYPE_CHECKING:
    import pulumi
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, VolumeArgsDict, VolumeMountArgsDict

PATH: Final = "/cache"
"""Where every cache of vLLM and its libraries is. Compiled files name their own paths, so it is the same in every pod."""
NAME: Final = "compile-cache"
"""The container that stores, and its volume."""
API_HOST: Final = "private.googleapis.com"
"""Reached in place of storage.googleapis.com: four addresses, which a network policy can name. Source: VPC docs, Private Google Access."""
RESTORE_SECONDS: Final = 90
"""Most that a server waits for its caches. Assumed: 8 GiB, the most there may be, at 100 MB/s; compiling takes the article's node nine
minutes."""
SAVE_SECONDS: Final = 120
"""Most that a pod is held back to store them. Assumed: packing and sending of as much, side by side with nothing else."""
_STATE: Final = "/state"
_CPU, _MEMORY, _DISK = "500m", "1Gi", "10Gi"
"""The storing container's. It copies a file of 8 GiB at most; an emptyDir counts against the whole pod's disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCache:
    """Where the pods of one release keep what they compile."""

    bucket: pulumi.Input[str]
    """Cloud Storage bucket."""
    key: str
    """What tells releases apart, 1 to 64 characters: equal for pods that may run each other's compiled files."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= 64:
            raise ValueError(f"KeptCache.key has {len(self.key)} characters; allowed: 1 to 64")


def restoring(cache: KeptCache, command: Sequence[str]) -> list[pulumi.Input[str]]:
    """`command`, started when the caches are there, or when they are not to be had."""
    return [*_program("restore", cache, RESTORE_SECONDS), "--", *command]


def saver(cache: KeptCache, image: pulumi.Input[str], mounts: Sequence[VolumeMountArgsDict]) -> ContainerArgsDict:
    """The container that stores them, beside the server from before its start. The pod is ready when it has tried."""
    amounts = {"cpu": _CPU, "memory": _MEMORY, "ephemeral-storage": _DISK}
    (caches,) = (mount for mount in mounts if mount.get("mount_path") == PATH)
    health = f"--health=http://127.0.0.1:{HTTP_PORT}/health"
    return {
        "name": NAME,
        "image": image,
        "restart_policy": "Always",
        "command": [*_program("save", cache, SAVE_SECONDS), health, f"--state={_STATE}"],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "security_context": {
            "allow_privilege_escalation": False,
            "capabilities": {"drop": ["ALL"]},
            "read_only_root_filesystem": True,
        },
        "volume_mounts": [{**caches, "read_only": True}, {"name": NAME, "mount_path": _STATE}],
        "readiness_probe": {"exec_": {"command": ["test", "-f", f"{_STATE}/done"]}, "period_seconds": 5},
    }


def volume() -> VolumeArgsDict:
    """The storing container's own volume: how far it is, and the archive while it is packed."""
    return {"name": NAME, "empty_dir": {}}


def _program(action: str, cache: KeptCache, limit_seconds: int) -> list[pulumi.Input[str]]:
    code = pod_programs.python_program("server/keep_compile_cache.py")
    options = [f"--key={cache.key}", f"--cache={PATH}", f"--limit-seconds={limit_seconds}", f"--through={API_HOST}"]
    return ["python3", "-c", code, action, "--bucket", cache.bucket, *options]
